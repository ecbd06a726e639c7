//! Time a frame: field engine and port together, for every mode of the `bench` profile.
fn main() {
    let ghz = benches::core_ghz();
    for vm in ["none", "var1", "var2", "random", "tuple", "cached", "size"] {
        let profile = engine::profile::Profile::new("bench", &[("size", "64"), ("vm", vm)]).unwrap();
        let streams = profile.streams(0, engine::profile::Macs { src: [2,0,0,0,0,1], dst: [2,0,0,0,0,2] });
        let mut writer = engine::field::Writer::compile(&streams[0].frames, 1, engine::field::Share::ALL).unwrap();
        let mut ports = catalog::open(&["null:"], &catalog::Options::default()).unwrap();
        let memory = hugemem::Memory::new(&hugemem::MemoryRequest { bytes: 16 << 20, pages: hugemem::Pages::HugeOrBase, node: None, spaces: vec![ports[0].space()] }).unwrap();
        let pool = hugemem::Pool::new(&memory, 128, writer.max_len()).unwrap();
        let mut queues = ports[0].start(&port::Config::default(), &memory).unwrap();
        let tx = &mut queues.tx[0];
        let mut burst = hugemem::Burst::new();
        let run = |tx: &mut Box<dyn port::TxQueue>, writer: &mut engine::field::Writer, burst: &mut hugemem::Burst, n: u32| {
            let start = std::time::Instant::now();
            for _ in 0..n {
                tx.reap(burst);
                pool.take_burst(burst, 64);
                writer.next_burst(burst);
                tx.burst(burst);
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(n) / 64.0
        };
        run(tx, &mut writer, &mut burst, 1000);
        let best = (0..20).map(|_| run(tx, &mut writer, &mut burst, 20_000)).fold(f64::MAX, f64::min);
        println!("{vm:8} {best:6.2} ns {:6.1} cycles {:7.1} Mpps period {:?}", best * ghz, 1e3 / best, writer.period());
    }
}
