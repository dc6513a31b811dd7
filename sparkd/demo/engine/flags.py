"""The flags of `vllm serve` this engine accepts: tables only. A flag is taken and, unless cli.py reads it, ignored."""

from __future__ import annotations


def table(text: str) -> list[str]:
    """The words of a table."""
    return text.split()


VALUES = table("""
model runner convert task tokenizer tokenizer-mode dtype seed hf-config-path hf-token allowed-local-media-path
allowed-media-domains revision code-revision rope-scaling rope-theta tokenizer-revision max-model-len quantization
max-seq-len-to-capture max-logprobs logprobs-mode config-format logits-processor-pattern generation-config model-impl
override-attention-dtype io-processor-plugin load-format download-dir safetensors-load-strategy pt-load-map-location
attention-backend guided-decoding-backend reasoning-parser reasoning-parser-plugin distributed-executor-backend
pipeline-parallel-size tensor-parallel-size decode-context-parallel-size prefill-context-parallel-size
dcp-kv-cache-interleave-size cp-kv-cache-interleave-size data-parallel-size data-parallel-rank
data-parallel-start-rank data-parallel-size-local data-parallel-address data-parallel-rpc-port data-parallel-backend
all2all-backend dbo-decode-token-threshold dbo-prefill-token-threshold expert-placement-strategy num-redundant-experts
eplb-window-size eplb-step-interval max-parallel-loading-workers worker-cls worker-extension-cls nnodes node-rank
master-addr master-port distributed-timeout-seconds cpu-distributed-timeout-seconds block-size gpu-memory-utilization
kv-cache-memory-bytes swap-space kv-cache-dtype num-gpu-blocks-override prefix-caching-hash-algo cpu-offload-gb
mamba-cache-dtype mamba-ssm-cache-dtype mamba-block-size mamba-cache-mode kv-offloading-size kv-offloading-backend
mm-processor-cache-gb mm-processor-cache-type mm-shm-cache-max-object-size-mb mm-encoder-tp-mode
mm-encoder-attn-backend video-pruning-rate max-loras max-lora-rank lora-dtype max-cpu-loras lora-extra-vocab-size
show-hidden-metrics-for-version otlp-traces-endpoint max-num-batched-tokens max-num-seqs max-num-partial-prefills
max-long-partial-prefills long-prefill-token-threshold scheduling-policy scheduler-cls stream-interval
num-lookahead-slots max-cudagraph-capture-size optimization-level performance-mode moe-backend host port uds
uvicorn-log-level chat-template chat-template-content-format response-role ssl-keyfile ssl-certfile ssl-ca-certs
ssl-cert-reqs root-path middleware tool-call-parser tool-parser-plugin tool-server log-config-file max-log-len
h11-max-incomplete-event-size h11-max-header-count api-server-count config shutdown-timeout numa-bind
disable-access-log-for-endpoints
""")

LISTS = table("""
served-model-name api-key lora-modules ignore-patterns logits-processors collect-detailed-traces
cudagraph-capture-sizes cuda-graph-sizes
""")

SWITCHES = table("""
trust-remote-code enforce-eager disable-sliding-window disable-cascade-attn skip-tokenizer-init enable-prompt-embeds
enable-sleep-mode use-tqdm-on-load data-parallel-hybrid-lb data-parallel-external-lb enable-expert-parallel enable-dbo
enable-eplb ray-workers-use-nsight disable-custom-all-reduce disable-nccl-for-dp-synchronization enable-prefix-caching
calculate-kv-scales kv-sharing-fast-prefill disable-mm-preprocessor-cache interleave-mm-strings skip-mm-profiling
language-model-only enable-mm-embeds enable-lora enable-lora-bias fully-sharded-loras kv-cache-metrics
enable-layerwise-nvtx-tracing enable-mfu-metrics enable-chunked-prefill disable-chunked-mm-input
disable-hybrid-kv-cache-manager async-scheduling enable-log-requests disable-log-requests disable-log-stats
aggregate-engine-logging disable-uvicorn-access-log allow-credentials trust-request-chat-template enable-ssl-refresh
return-tokens-as-token-ids disable-frontend-multiprocessing enable-request-id-headers enable-auto-tool-choice
exclude-tools-when-tool-choice-none disable-fastapi-docs enable-prompt-tokens-details enable-server-load-tracking
enable-force-include-usage enable-tokenizer-info-endpoint enable-log-outputs log-error-stack tokens-only headless
enable-scale-out grpc
""")

# A JSON value that becomes a configuration class: a bad one fails in pydantic (evidence 11).
CONFIG_CLASSES = {
    "compilation-config": "CompilationConfig",
    "attention-config": "AttentionConfig",
    "structured-outputs-config": "StructuredOutputsConfig",
    "kv-transfer-config": "KVTransferConfig",
    "kv-events-config": "KVEventsConfig",
    "ec-transfer-config": "ECTransferConfig",
    "eplb-config": "EPLBConfig",
    "pooler-config": "PoolerConfig",
    "profiler-config": "ProfilerConfig",
    "watchdog-config": "WatchdogConfig",
    "kernel-config": "KernelConfig",
}

# A JSON value read with json.loads: a bad one "cannot be converted" (evidence 11).
JSON_VALUES = table("""
speculative-config additional-config hf-overrides override-generation-config model-loader-extra-config
limit-mm-per-prompt media-io-kwargs mm-processor-kwargs default-mm-loras default-chat-template-kwargs allowed-origins
allowed-methods allowed-headers
""")

SHORT = {
    "tensor-parallel-size": "-tp",
    "pipeline-parallel-size": "-pp",
    "decode-context-parallel-size": "-dcp",
    "prefill-context-parallel-size": "-pcp",
    "data-parallel-size": "-dp",
    "data-parallel-rank": "-dpn",
    "data-parallel-start-rank": "-dpr",
    "data-parallel-size-local": "-dpl",
    "data-parallel-address": "-dpa",
    "data-parallel-rpc-port": "-dpp",
    "data-parallel-backend": "-dpb",
    "data-parallel-hybrid-lb": "-dph",
    "data-parallel-external-lb": "-dpe",
    "enable-expert-parallel": "-ep",
    "nnodes": "-n",
    "node-rank": "-r",
    "quantization": "-q",
    "compilation-config": "-cc",
    "attention-config": "-ac",
    "speculative-config": "-sc",
    "api-server-count": "-asc",
    "optimization-level": "-O",
}

DTYPES = ("auto", "bfloat16", "float", "float16", "float32", "half")

REASONING_PARSERS = table("""
cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41 ernie45 gemma4 glm45 glm47 granite
granite_thinking_parser hf holo2 hunyuan_a13b hy_v3 hy_v4 inkling k2_horizon kimi_k2 kimi_k3 ling3 mimo minicpmv
minimax_m2 minimax_m2_append_think minimax_m3 mistral muse_glimmer nemotron_v3 olmo3 openai_gptoss plamo3 poolside_v1
qwen3 seed_oss step3 step3p5
""")

TOOL_PARSERS = table("""
apertus cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41 dots ernie45
functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc granite4 hermes hf hunyuan_a13b hy_v3 hy_v4 inkling
internlm jamba k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3_json llama4_json llama4_pythonic longcat mimo minicpm5
minimax_m2 minimax_m3 mistral muse_glimmer olmo3 openai phi4_mini_json plamo3 poolside_v1 pythonic qwen3_coder
qwen3_json qwen3_xml seed_oss step3 step3p5 xlam
""")
