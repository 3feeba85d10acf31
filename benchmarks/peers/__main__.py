"""The peers alone, with those that are installed on request only."""

import click

from benchmarks.peers import main


@click.command()
@click.option("--with", "wanted", multiple=True, type=click.Choice(["torchmil"]), help="Install this peer too.")
@click.option("--quick", is_flag=True, help="Fewer bags and repeats.")
def run(wanted: tuple[str, ...], quick: bool) -> None:
    """Models of bagwise beside those of other libraries; a peer that was installed once is used from then on."""
    main(quick, wanted)


if __name__ == "__main__":
    run()
