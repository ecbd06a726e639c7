//! Plots as SVG, by plotters.

use std::error::Error;

use plotters::coord::Shift;
use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;

use super::bench::{BenchDocument, BenchRow};
use super::ndr::TrialRow;
use crate::units::{nanoseconds, pps};

/// What plotters says when it cannot draw.
pub(crate) type PlotError = Box<dyn Error + Send + Sync>;

const SIZE: (u32, u32) = (540, 320);
const GOOD: RGBColor = RGBColor(31, 136, 61);
const LOST: RGBColor = RGBColor(207, 34, 46);
const UNSENT: RGBColor = RGBColor(219, 109, 40);
const BOUND: RGBColor = RGBColor(9, 105, 218);
const LINE: RGBColor = RGBColor(140, 149, 159);
/// One colour a load.
const LOADS: [RGBColor; 5] = [
    RGBColor(9, 105, 218),
    RGBColor(31, 136, 61),
    RGBColor(207, 34, 46),
    RGBColor(130, 80, 223),
    RGBColor(154, 103, 0),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// An SVG that `draw` draws.
fn svg(draw: impl FnOnce(&Area<'_>) -> Result<(), PlotError>) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        area.present()?;
    }
    Ok(svg)
}

fn font() -> FontDesc<'static> {
    ("sans-serif", 12).into()
}

/// The colour that says what became of a trial.
fn colour(trial: &TrialRow) -> RGBColor {
    match (trial.lost_frames, trial.unsent_frames) {
        (0, 0) => GOOD,
        (0, _) => UNSENT,
        _ => LOST,
    }
}

fn highest(values: impl Iterator<Item = f64>) -> f64 {
    let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    if highest > 0.0 { highest * 1.08 } else { 1.0 }
}

/// The search: loads by trial, and the bounds closing in.
pub(crate) fn path(row: &BenchRow) -> Result<String, PlotError> {
    let trials: Vec<&TrialRow> = row.trials.iter().collect();
    let last = trials.len() as f64 + 1.0;
    let top = highest(trials.iter().map(|trial| trial.load_pps));
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(34)
            .y_label_area_size(84)
            .build_cartesian_2d(0.0..last, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            // Whole trials only, as long as there are few.
            .x_labels((trials.len() + 2).min(12))
            .x_desc("trial")
            .y_desc("load")
            .label_style(font())
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| pps(*y))
            .draw()?;
        let bounds: [fn(&TrialRow) -> Option<f64>; 2] =
            [|trial| trial.lower_pps, |trial| trial.upper_pps];
        for bound in bounds {
            let points = trials.iter().enumerate();
            let points = points.filter_map(|(n, trial)| Some((n as f64 + 1.0, bound(trial)?)));
            chart.draw_series(LineSeries::new(points, BOUND.stroke_width(1)))?;
        }
        let points = trials.iter().enumerate();
        chart.draw_series(points.map(|(n, trial)| {
            let at = (n as f64 + 1.0, trial.load_pps);
            let style = colour(trial);
            let is_counted = !trial.is_warm_up;
            Circle::new(
                at,
                3,
                if is_counted {
                    style.filled()
                } else {
                    style.stroke_width(1)
                },
            )
        }))?;
        Ok(())
    })
}

/// Loss against load.
pub(crate) fn losses(row: &BenchRow) -> Result<String, PlotError> {
    let trials: Vec<_> = row
        .trials
        .iter()
        .filter(|trial| !trial.is_warm_up)
        .collect();
    let right = highest(trials.iter().map(|trial| trial.load_pps));
    let top = highest(trials.iter().map(|trial| trial.loss_ratio * 100.0));
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(34)
            .y_label_area_size(54)
            .build_cartesian_2d(0.0..right, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(6)
            .x_desc("load")
            .y_desc("loss, %")
            .label_style(font())
            .x_label_formatter(&|x| pps(*x))
            .y_label_formatter(&|y| format!("{y:.3}"))
            .draw()?;
        if let Some(ndr) = row.ndr.as_ref().and_then(|goal| goal.lower_pps) {
            let line = [(ndr, 0.0), (ndr, top)];
            chart.draw_series(LineSeries::new(line, BOUND.stroke_width(1)))?;
        }
        chart.draw_series(trials.iter().map(|trial| {
            let at = (trial.load_pps, trial.loss_ratio * 100.0);
            Circle::new(at, 3, colour(trial).filled())
        }))?;
        Ok(())
    })
}

/// Latency at a load.
struct Curve {
    name: String,
    colour: RGBColor,
    /// Shares of the probes, and nanoseconds that none of them exceeds.
    points: Vec<(f64, f64)>,
}

/// A curve a load.
fn curves(row: &BenchRow) -> Vec<Curve> {
    let measured = row.latency.iter().filter(|at| !at.distribution.is_empty());
    let curves = measured.zip(LOADS.into_iter().cycle()).map(|(at, colour)| {
        let points = at.distribution.iter();
        // A logarithm has no zero.
        let points = points.map(|point| (point.share, (point.ns as f64).max(1.0)));
        let name = format!("{:.0} % of NDR", at.of_ndr * 100.0);
        Curve {
            name,
            colour,
            points: points.collect(),
        }
    });
    curves.collect()
}

/// The shortest and the longest latency of all loads, with some room.
fn span(row: &BenchRow) -> (f64, f64) {
    let points = curves(row).into_iter().flat_map(|curve| curve.points);
    let times = points.map(|(_, ns)| ns);
    let (low, high) = times.fold((f64::MAX, 1.0_f64), |(low, high), ns| {
        (low.min(ns), high.max(ns))
    });
    (low.min(high) * 0.8, high * 1.25)
}

/// Nines of a share: 0.9 has one, 0.99 two. All of them end where the last probe but one is.
fn nines(share: f64, most: f64) -> f64 {
    (-(1.0 - share).log10()).clamp(0.0, most)
}

/// Draws the curve of each load, with its points where `at` puts them, and a legend in `corner`.
fn draw_curves<'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    row: &BenchRow,
    at: impl Fn((f64, f64)) -> (f64, f64),
    corner: SeriesLabelPosition,
) -> Result<(), PlotError>
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    for Curve {
        name,
        colour,
        points,
    } in curves(row)
    {
        let points = points.into_iter().map(&at);
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(corner)
        .label_font(font())
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}

/// Latency by percentile.
pub(crate) fn percentiles(row: &BenchRow) -> Result<String, PlotError> {
    let (low, high) = span(row);
    let probes = row
        .latency
        .iter()
        .filter_map(|at| at.latency_ns.map(|latency| latency.count));
    let most = (probes.max().unwrap_or(10).max(10) as f64).log10().min(7.0);
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(34)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..most, (low..high).log_scale())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_labels(6)
            .x_desc("percentile")
            .label_style(font())
            .x_label_formatter(&|x| {
                format!("{:.5}", 100.0 - 100.0 * 10.0_f64.powf(-x))
                    .trim_end_matches('0')
                    .trim_end_matches('.')
                    .to_owned()
            })
            .y_label_formatter(&|y| nanoseconds(*y))
            .draw()?;
        let at = |(share, ns)| (nines(share, most), ns);
        draw_curves(&mut chart, row, at, SeriesLabelPosition::UpperLeft)
    })
}

/// How many of the probes were no later, by latency.
pub(crate) fn cumulated(row: &BenchRow) -> Result<String, PlotError> {
    let (low, high) = span(row);
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(34)
            .y_label_area_size(44)
            .build_cartesian_2d((low..high).log_scale(), 0.0..1.02)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("latency")
            .label_style(font())
            .x_label_formatter(&|x| nanoseconds(*x))
            .y_label_formatter(&|y| format!("{:.0} %", y * 100.0))
            .draw()?;
        let at = |(share, ns)| (ns, share);
        draw_curves(&mut chart, row, at, SeriesLabelPosition::LowerRight)
    })
}

/// NDR of each row beside the line and what the port took unpaced.
pub(crate) fn bars(document: &BenchDocument) -> Result<String, PlotError> {
    let rows = &document.rows;
    let figures = |row: &BenchRow| {
        let ndr = row.ndr.as_ref().and_then(|goal| goal.lower_pps);
        [
            (row.line_pps, LINE),
            (row.unpaced_pps, UNSENT),
            (ndr, BOUND),
        ]
    };
    let all = rows
        .iter()
        .flat_map(|row| figures(row).map(|(pps, _)| pps.unwrap_or(0.0)));
    let top = highest(all);
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(8)
            .y_label_area_size(84)
            // Names have their place below the bars.
            .build_cartesian_2d(0.0..rows.len().max(1) as f64, -0.08 * top..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .disable_x_axis()
            .light_line_style(TRANSPARENT)
            .label_style(font())
            .y_label_formatter(&|y| match *y {
                y if y < 0.0 => String::new(),
                y => pps(y),
            })
            .draw()?;
        chart.draw_series(rows.iter().enumerate().map(|(n, row)| {
            let at = (n as f64 + 0.14, -0.02 * top);
            Text::new(format!("{} {}", row.size, row.vm), at, font())
        }))?;
        let labels = ["line", "unpaced", "NDR"];
        for (bar, label) in labels.into_iter().enumerate() {
            let left = 0.14 + 0.24 * bar as f64;
            let at = rows.iter().enumerate();
            let at = at.filter_map(|(n, row)| {
                let (pps, colour) = figures(row)[bar];
                let from = n as f64 + left;
                Some(Rectangle::new(
                    [(from, 0.0), (from + 0.22, pps?)],
                    colour.filled(),
                ))
            });
            let colour = [LINE, UNSENT, BOUND][bar];
            chart.draw_series(at)?.label(label).legend(move |(x, y)| {
                Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled())
            });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .label_font(font())
            .background_style(WHITE.mix(0.8))
            .draw()?;
        Ok(())
    })
}
