from bagwise.cli.main import main

main()
