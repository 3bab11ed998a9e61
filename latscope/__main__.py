from latscope.cli.main import main

main()
