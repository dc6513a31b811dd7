export MN_IF_NAME=enp1s0f1np1
export NCCL_SOCKET_IFNAME=$MN_IF_NAME
export GLOO_SOCKET_IFNAME=$MN_IF_NAME
export UCX_NET_DEVICES=$MN_IF_NAME
export SGLANG_VLM_CACHE_SIZE_MB=8192
python3 -m sglang.launch_server \
  --model-path QuantTrio/Qwen3-VL-235B-A22B-Instruct-AWQ \
  --tp 2 --nnodes 2 --node-rank 0 --dist-init-addr 192.168.100.10:20000 \
  --mem-fraction-static 0.75 --context-length 4096 --max-running-requests 16 \
  --attention-backend flashinfer --host 0.0.0.0 --port 30000 --trust-remote-code
