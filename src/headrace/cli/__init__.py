"""Commands: one file each. `main` is `headrace`; nats_server.py is the drop-in `headrace-server`."""


def main() -> None:
    """The entry point. It imports here, so that the drop-in, which is in this package, too, does not."""
    from headrace.cli.command import run_and_exit

    run_and_exit()
