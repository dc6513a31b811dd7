docker run \
  --privileged \
  --gpus all \
  -d \
  --name vllm-devstral \
  --network host \
  --ipc=host \
  -v $HOME/models/devstral-small-2-24b/safetensors:/models/devstral-small-2-24b \
  vllm-node \
  vllm serve /models/devstral-small-2-24b \
    --port 8000 \
    --host 0.0.0.0 \
    --gpu-memory-utilization 0.85 \
    --max-model-len 65536 \
    --enforce-eager \
    --trust-remote-code
