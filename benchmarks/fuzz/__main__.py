from benchmarks.fuzz.blind import main

main()
