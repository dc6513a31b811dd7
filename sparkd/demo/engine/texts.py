"""The log lines of a start, a failure and a stop: as recorded from real vLLM 0.32, in its order, tables only."""

from __future__ import annotations

SITE = "/opt/vllm/lib/python3.11/site-packages/"
EXECUTOR = "multiproc_executor.py"
FATAL = "core.py:1512"
WORKER_HIT = EXECUTOR + ":1063"
WORKER_START = EXECUTOR + ":953"

ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
ENGINE_DEAD_ERROR = f"vllm.v1.engine.exceptions.EngineDeadError: {ENGINE_DEAD}"
CORE_FAILED = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
WORKER_FAILED = (
    "Exception: WorkerProc initialization failed due to an exception in a background process. "
    "See stack trace for root cause."
)
FOLLOWER = "AssertionError: collective_rpc should not be called on follower node"
RPC_TIMEOUT = "TimeoutError: RPC call to execute_model timed out."
HANG_HINT = (
    "No available shared memory broadcast block found in {:.0f} seconds. This typically happens when some processes "
    "are hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization)."
)
GLOO = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:"
GLOO_RESET = (
    GLOO + "537] Read error [{}]:{}: Connection reset by peer. This is typically caused by a remote worker hanging or "
    "bugs in the application. Check the logs of the remote worker before reporting an error. GLHF! \U0001f3d6\ufe0f"
)
GLOO_CLOSED = (
    GLOO + "553] Connection closed by peer [{}]:{}. This is typically caused by a remote worker crashing. Check the "
    "logs of the remote worker before reporting an error. GLHF! \U0001f3d6\ufe0f"
)
GLOO_NO_INTERFACE = (
    "RuntimeError: [enforce fail at /__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] "
    "ifa != nullptr. Unable to find address for: {}"
)
PORT_TAKEN = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: {}, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)
STORE_TIMEOUT = (
    "torch.distributed.DistStoreError: Timed out after {:.0f} seconds waiting for clients. {}/{} clients joined."
)
STORE_RETRY = (
    "[W{} TCPStore.cpp:340] [c10d] TCP client failed to connect/validate to host {} - retrying (try=0, "
    "timeout=1800000ms, delay=510ms): Failed to recv, got 0 bytes. Connection was likely closed. "
    "Did the remote server shutdown or crash?"
)
STEP_FAILED = "RuntimeError: Worker failed with error '{}', please check the stack trace above for the root cause"
BAD_TOOL_PARSER = "KeyError: 'invalid tool call parser: {} (chose from {{ {} }})'"
BAD_REASONING_PARSER = "KeyError: \"Reasoning parser '{}' not found. Available parsers: {}\""
BAD_HEADER = (
    "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, "
    "file not fully covered"
)
UVICORN_STOP = (
    "INFO:     Shutting down\nINFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete."
)
BAD_MODEL = (
    "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{}'. "
    "Use `repo_type` argument if needed."
)
NO_SNAPSHOT = (
    "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the "
    "specified revision on the local disk and outgoing traffic has been disabled. To enable repo look-ups and "
    "downloads online, pass 'local_files_only=False' as input."
)

BANNER = """
       █     █     █▄   ▄█
 ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0
  █▄█▀ █     █     █     █  model   {model}
   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀
"""

# Each table: level, source place, text with the options' fields in braces.
CONFIG = (
    ("INFO", "model.py:733", "Resolved architecture: LlamaForCausalLM"),
    ("INFO", "model.py:2152", "Using max model len {max_model_len}"),
    ("INFO", "arg_utils.py:2472", "Inferred data_parallel_rank 0 from node_rank {rank}"),
    ("INFO", "scheduler.py:307", "Chunked prefill is enabled with max_num_batched_tokens=4096."),
    ("INFO", "compilation.py:317", "Enabled custom fusions: norm_quant, act_quant"),
)
CORE = (
    (
        "INFO",
        "core.py:133",
        "Initializing a V1 LLM engine (v0.32.0) with config: model='{model}', max_seq_len={max_model_len}",
    ),
    (
        "INFO",
        EXECUTOR + ":153",
        "DP group leader: node_rank={rank}, node_rank_within_dp={rank}, master_addr={master_addr}, "
        "mq_connect_ip={master_addr} (local), world_size={nnodes}, local_world_size=1",
    ),
)
HEADLESS = (
    (
        "INFO",
        "serve.py:224",
        "Launching vLLM (v0.32.0) headless multiproc executor, with head node address {master} for torch.distributed "
        "process group.",
    ),
)
JOINING = (
    (
        "INFO",
        "parallel_state.py:1906",
        "world_size={nnodes} rank={rank} local_rank=0 distributed_init_method=tcp://{master} backend=gloo",
    ),
)
JOINED = (
    (
        "INFO",
        "parallel_state.py:2350",
        "rank {rank} in world size {nnodes} is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank {rank}, "
        "ETP rank {rank}, EP rank N/A, EPLB rank N/A",
    ),
)
LOADING = (("INFO", "cpu_model_runner.py:68", "Starting to load model {model}..."),)
LOADED = (("INFO", "default_loader.py:501", "Loading weights took {seconds:.2f} seconds"),)
KV_CACHE = (("INFO", "cpu_worker.py:260", "Explicitly set (1.0/13.09) GiB for KV cache on node 0."),)
CORE_READY = (
    (
        "INFO",
        "kv_cache_utils.py:2327",
        "CPU KV cache size: 2,097,152 tokens, Maximum concurrency for {max_model_len:,} tokens per request: "
        "{concurrency:.2f}x",
    ),
    ("INFO", "core.py:402", "init engine (profile, create kv cache, warmup model) took {seconds:.2f} s"),
)
SERVING = (
    ("INFO", "entry.py:136", "Supported tasks: ['generate']"),
    ("INFO", "entry.py:140", "Starting vLLM server on http://{bind}:{port}"),
    ("INFO", "launcher.py:186", "Available routes are:"),
    ("INFO", "launcher.py:195", "Route: /load, Methods: GET"),
    ("INFO", "launcher.py:195", "Route: /version, Methods: GET"),
    ("INFO", "launcher.py:195", "Route: /health, Methods: GET"),
    ("INFO", "launcher.py:195", "Route: /metrics, Methods: GET"),
    ("INFO", "launcher.py:195", "Route: /v1/models, Methods: GET"),
    ("INFO", "launcher.py:195", "Route: /ping, Methods: GET"),
    ("INFO", "launcher.py:195", "Route: /ping, Methods: POST"),
    ("INFO", "launcher.py:195", "Route: /v1/chat/completions, Methods: POST"),
    ("INFO", "launcher.py:195", "Route: /v1/completions, Methods: POST"),
)
STOP = (
    ("INFO", "launcher.py:254", "[shutdown] API server: shutdown triggered"),
    ("INFO", "launcher.py:270", "[shutdown] API server: stopping engine client mode={mode} timeout={timeout:.0f}s"),
)
STOP_CLIENT = (
    ("INFO", "core_client.py:770", "[shutdown] MPClient: start timeout={timeout:.0f}s"),
    ("INFO", "core_client.py:772", "[shutdown] MPClient: stopping engine manager"),
    ("INFO", "utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore"),
    ("WARNING", "utils.py:648", "[shutdown] Process manager: force killing remaining processes count=1"),
    ("WARNING", "utils.py:653", "[shutdown] Process manager: force killing remaining process EngineCore pid {core}"),
    ("WARNING", "system_utils.py:225", "[shutdown] force killing sub process {worker_title} pid {worker}"),
    ("INFO", "core_client.py:774", "[shutdown] MPClient: engine manager stopped"),
    ("INFO", "core_client.py:775", "[shutdown] MPClient: cleaning up background resources"),
    ("INFO", "core_client.py:777", "[shutdown] MPClient: complete"),
)
STOPPED = (
    ("INFO", "launcher.py:279", "[shutdown] API server: engine client stopped"),
    ("INFO", "launcher.py:282", "[shutdown] API server: signalling HTTP server shutdown"),
    ("INFO", "launcher.py:304", "[shutdown] API server: shutting down FastAPI HTTP server"),
)
WAITING_FOR_WORKER = ("INFO", EXECUTOR + ":479", "[shutdown] Executor: waiting for worker exit count={count}")
WORKERS_EXITED = ("INFO", EXECUTOR + ":486", "[shutdown] Executor: all workers exited gracefully")
WORKER_DIED = (
    "ERROR",
    EXECUTOR + ":315",
    "Worker proc VllmWorker-{rank} died unexpectedly (exit code: None), shutting down executor.",
)
GRACE_OVER = (
    "WARNING",
    EXECUTOR + ":491",
    "[shutdown] Executor: workers still running after grace period; sending SIGTERM count=1",
)
TERM_IGNORED = (
    "WARNING",
    EXECUTOR + ":501",
    "[shutdown] Executor: workers still running after SIGTERM; sending SIGKILL count=1",
)
CORE_DIED = (
    "ERROR",
    "core_client.py:674",
    "Engine core proc EngineCore died unexpectedly, shutting down client.",
)
STATS = (
    "INFO",
    "loggers.py:335",
    "Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {generation:.1f} tokens/s, "
    "Running: {running} reqs, Waiting: {waiting} reqs, CPU KV cache usage: {kv:.1%}, Prefix cache hit rate: 0.0%",
)

# Frames of the tracebacks, shortened to those that tell one failure from another.
EXECUTE_FRAMES = (
    SITE + "vllm/v1/executor/multiproc_executor.py, line 1055, in _execute_worker_rpc: output = func(*args, **kwargs)",
    SITE + "vllm/v1/worker/gpu_worker.py, line 1328, in execute_model: output = self.model_runner.execute_model(",
)
ALL_REDUCE_FRAMES = (
    *EXECUTE_FRAMES,
    SITE + "vllm/distributed/parallel_state.py, line 745, in all_reduce: return self._all_reduce_out_place(input_)",
    SITE + "torch/distributed/distributed_c10d.py, line 3252, in all_reduce: work.wait()",
)
BATCH = SITE + "vllm/v1/worker/gpu_input_batch.py, "
ADD_REQUEST_FRAMES = (
    *EXECUTE_FRAMES,
    BATCH + "line 349, in add_request: req_index = self._register_add_request(request)",
    BATCH + "line 329, in _register_add_request: assert new_req_index < self.max_num_reqs",
)
PREPARE_FRAMES = (
    *EXECUTE_FRAMES,
    SITE + "vllm/v1/worker/gpu_model_runner.py, line 1975, in _prepare_inputs: torch.index_select(",
)
WORKER_INIT_FRAMES = (
    SITE + "vllm/v1/executor/multiproc_executor.py, line 920, in worker_main: worker = WorkerProc(*args, **kwargs)",
)
CORE_INIT_FRAMES = (
    SITE + "vllm/v1/engine/core.py, line 1482, in run_engine_core: engine_core = EngineCoreProc(*args, **kwargs)",
)
CORE_STEP_FRAMES = (
    SITE + "vllm/v1/engine/core.py, line 1496, in run_engine_core: engine_core.run_busy_loop()",
    SITE + "vllm/v1/engine/core.py, line 674, in step: model_output = future.result()",
)
OUTPUT_FRAMES = (
    SITE + "vllm/v1/engine/async_llm.py, line 849, in output_handler: outputs = await engine_core.get_output_async()",
)
MAIN_FRAMES = ("/opt/vllm/bin/vllm, line 6, in <module>: sys.exit(main())",)
SERVER = SITE + "vllm/entrypoints/launchers/api_server/entry.py, "
START_FRAMES = (*MAIN_FRAMES, SERVER + "line 195, in run_server_worker: async with build_async_engine_client(")
MODEL_FRAMES = (
    *MAIN_FRAMES,
    SITE + "vllm/engine/arg_utils.py, line 914, in __post_init__: self.model = get_model_path(",
)
