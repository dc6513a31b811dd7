export MN_IF_NAME=enp1s0f1np1
export NCCL_SOCKET_IFNAME=$MN_IF_NAME
export GLOO_SOCKET_IFNAME=$MN_IF_NAME
export UCX_NET_DEVICES=$MN_IF_NAME
export RAY_memory_monitor_refresh_ms=0
vllm serve QuantTrio/Qwen3-VL-235B-A22B-Thinking-AWQ \
  --tensor-parallel-size 2 --trust-remote-code \
  --quantization awq --gpu-memory-utilization 0.70 --kv-cache-dtype fp8 \
  --max-num-batched-tokens 4096 \
  --scheduling-policy priority --mm-encoder-tp-mode data \
  --limit-mm-per-prompt '{"video": 0}' --enforce-eager \
  --enable-auto-tool-choice --tool-call-parser hermes \
  --distributed-executor-backend ray --host 0.0.0.0 --port 8000
