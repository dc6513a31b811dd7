docker run \
  --privileged --gpus all \
  -it --rm \
  --network host --ipc=host \
  -v $HOME/models/devstral-small-2-24b/safetensors:/models/devstral-small-2-24b \
  vllm-node \
  bash -c "vllm serve /models/devstral-small-2-24b \
    --port 8000 --host 0.0.0.0 \
    --gpu-memory-utilization 0.7 \
    --trust-remote-code"
