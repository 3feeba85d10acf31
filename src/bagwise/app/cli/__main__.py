from bagwise.app.cli.main import main

main()
