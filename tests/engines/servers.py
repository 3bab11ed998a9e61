"""Start the real engines: `with servers.vllm() as server: ... server.base_url ...`.

Each is a process group of its own on a free loopback port, with a folder of its own for all it
leaves lying about, and is gone with both when the block ends. The models never end an output by
themselves (see models.py), so `max_tokens` is the number of tokens a call gets; `ignore_eos` is
not needed, though a grammar or a stop string ends an output as it does elsewhere.
"""

import contextlib
import hashlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.engines import install

MODEL = "tiny"
HOST = "127.0.0.1"
POLL_S = 0.05
STOP_S = 15.0
GROUP_S = 5.0
VLLM_READY_S = 300.0
LLAMA_READY_S = 60.0
NGINX_READY_S = 20.0
LOG_LINES = 40
NGINX_HEALTH = "/nginx-itself"  # not /health: that one is the engine's


class EngineError(Exception):
    """An engine did not start or died early; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Server:
    """A real engine that answers."""

    base_url: str
    model: str
    log_path: Path
    pid: int


@contextlib.contextmanager
def vllm(
    port: int = 0,
    extra_args: Sequence[str] = (),
    otlp: str | None = None,
    extra_env: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run vLLM with per-request figures on; `otlp` is where its spans go (gRPC)."""
    port = port or free_port()
    home = install.folder("vllm")
    command = [str(home / "bin" / "vllm"), "serve", str(model_path("hf"))]
    command += ["--served-model-name", MODEL, "--host", HOST, "--port", str(port)]
    command += ["--max-model-len", "4096", "--enforce-eager", "--enable-per-request-metrics"]
    command += ["--enable-prompt-tokens-details", "--enable-request-id-headers"]
    command += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    command += ["--otlp-traces-endpoint", otlp] if otlp else []
    cache = install.cache()
    env = {
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(cache / "vllm-cache" / "hf"),
        "VLLM_CACHE_ROOT": str(cache / "vllm-cache"),
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_HOST_IP": HOST,
        "VLLM_NO_USAGE_STATS": "1",
        # Some features compile a kernel at first use, 20 s each; kept, they do so once a machine.
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "vllm-cache" / "inductor"),
        "OTEL_EXPORTER_OTLP_TRACES_INSECURE": "true",
        **(extra_env or {}),
    }
    with _running("vllm", [*command, *extra_args], port, VLLM_READY_S, env) as server:
        yield server


@contextlib.contextmanager
def llama(port: int = 0, extra_args: Sequence[str] = ()) -> Iterator[Server]:
    """Run llama.cpp's server with four slots that share one context."""
    port = port or free_port()
    command = [str(install.llama_binary()), "--model", str(model_path("gguf")), "--alias", MODEL]
    command += ["--host", HOST, "--port", str(port), "--ctx-size", "16384", "--parallel", "4"]
    command += ["--threads", "2", "--offline", "--metrics", *extra_args]
    with _running("llama", command, port, LLAMA_READY_S) as server:
        yield server


@contextlib.contextmanager
def nginx(
    upstream_port: int,
    *,
    http: str = "1.1",
    buffering: bool = True,
    gzip: bool = False,
    heed_upstream: bool = True,
) -> Iterator[Server]:
    """Run nginx in front of an engine; by default it passes streams on.

    `gzip=True` holds them until the end for a client that accepts gzip, unless the engine forbids
    it with `X-Accel-Buffering: no`, as llama.cpp does; with `heed_upstream=False` it cannot.
    `http="1.0"` holds a stream only if the upstream sends it without chunks; both engines send
    chunks to any client.
    """
    port = free_port()
    text = NGINX.format(
        port=port,
        health=NGINX_HEALTH,
        upstream=upstream_port,
        http=http,
        buffering="on" if buffering else "off",
        gzip="on" if gzip else "off",
        ignore="" if heed_upstream else "proxy_ignore_headers X-Accel-Buffering;",
    )
    with tempfile.TemporaryDirectory(prefix="latscope-nginx-conf-") as folder:
        config = Path(folder) / "nginx.conf"
        config.write_text(text, encoding="utf-8")
        command = ["nginx", "-p", folder, "-c", str(config), "-e", "stderr"]
        with _running("nginx", command, port, NGINX_READY_S, health=NGINX_HEALTH) as server:
            yield server


# One process, no workers: a master would start them as a user who cannot write the folder.
NGINX = """\
daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    gzip {gzip};
    gzip_types text/event-stream application/json;
    server {{
        listen 127.0.0.1:{port};
        location = {health} {{ return 200; }}
        location / {{
            proxy_pass http://127.0.0.1:{upstream};
            proxy_http_version {http};
            proxy_set_header Connection "";
            proxy_buffering {buffering};
            proxy_read_timeout 300s;
            {ignore}
        }}
    }}
}}
"""


def free_port() -> int:
    """Find a loopback port nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def model_path(kind: str) -> Path:
    """Give the model as `hf` folder or `gguf` file, made once for each state of models.py."""
    script = install.HERE / "models.py"
    state = hashlib.sha256(script.read_bytes()).hexdigest()[:12]
    path = install.cache() / "models" / state / {"hf": "tiny", "gguf": "tiny.gguf"}[kind]
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    python = install.folder({"hf": "vllm", "gguf": "llama"}[kind]) / "bin" / "python"
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [str(python), str(script), kind, str(made)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise EngineError(f"no {kind} model: {tail(result.stderr)}")
        with contextlib.suppress(OSError):  # somebody else was as quick: theirs is the same
            made.rename(path)
    return path


@contextlib.contextmanager
def _running(
    name: str,
    command: Sequence[str],
    port: int,
    ready_s: float,
    env: dict[str, str] | None = None,
    health: str = "/health",
) -> Iterator[Server]:
    """Start one engine, wait until it answers, and take it down with all it left."""
    folder = Path(tempfile.mkdtemp(prefix=f"latscope-{name}-"))
    log = folder / "log"
    temporary = folder / "tmp"
    temporary.mkdir()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(env or {}), "TMPDIR": str(temporary)},
            start_new_session=True,
        )
    try:
        _wait_until_healthy(name, process, port, health, ready_s, log)
        yield Server(f"http://{HOST}:{port}", MODEL, log, process.pid)
    finally:
        _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_healthy(
    name: str,
    process: subprocess.Popen[bytes],
    port: int,
    health: str,
    ready_s: float,
    log: Path,
) -> None:
    """Ask until it finds itself healthy; waiting on the process notices an early death."""
    deadline = time.monotonic() + ready_s
    while not healthy(port, health):
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout=POLL_S)
            raise EngineError(f"{name} exited with {status} before it answered:\n{log_tail(log)}")
        if time.monotonic() > deadline:
            raise EngineError(
                f"{name} gave no answer on {health} in {ready_s:.0f} s:\n{log_tail(log)}"
            )


def healthy(port: int, path: str = "/health") -> bool:
    """Tell whether whatever listens there finds itself able to serve."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the server to stop, give its workers time to tidy up, then end what is left of them."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=STOP_S)
    deadline = time.monotonic() + GROUP_S
    while _group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _group_lives(group: int) -> bool:
    """Tell whether a process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def log_tail(log: Path) -> str:
    """Give the last lines of a log file."""
    return tail(log.read_text(encoding="utf-8", errors="replace"))


def tail(text: str) -> str:
    """Give the last lines of a text."""
    return "\n".join(text.splitlines()[-LOG_LINES:])
