#!/bin/bash
export VLLM_HOST_IP=192.168.1.12
export NCCL_SOCKET_IFNAME=bond0
export NCCL_IB_HCA=rocep1s0f0,rocep1s0f1
export NCCL_IB_DISABLE=0
export NCCL_IGNORE_CPU_AFFINITY=1
export GLOO_SOCKET_IFNAME=bond0
export TORCH_CUDA_ARCH_LIST=12.1a
export VLLM_ALLOW_LONG_MAX_MODEL_LEN=1
export VLLM_TRITON_MLA_SPARSE=1
export VLLM_USE_FLASHINFER_SAMPLER=1
export FLASHINFER_DISABLE_VERSION_CHECK=1
export TILELANG_CLEANUP_TEMP_FILES=1
export DG_JIT_USE_NVRTC=0
export DG_JIT_NVCC_COMPILER=/usr/local/cuda/bin/nvcc
export OMP_NUM_THREADS=8
vllm serve /models/DeepSeek-V4-Flash \
--served-model-name deepseek-v4-flash \
--host 0.0.0.0 --port 8000 \
--trust-remote-code \
--tensor-parallel-size 2 --pipeline-parallel-size 1 \
--kv-cache-dtype fp8 --block-size 256 \
--enable-prefix-caching --enable-chunked-prefill \
--max-model-len 200000 --max-num-seqs 4 \
--max-num-batched-tokens 16384 \
--gpu-memory-utilization 0.90 \
--disable-custom-all-reduce \
--compilation-config '{"cudagraph_mode":"FULL_AND_PIECEWISE","custom_ops":["all"]}' \
--speculative-config '{"method":"deepseek_mtp","num_speculative_tokens":2}' \
--tokenizer-mode deepseek_v4 --tool-call-parser deepseek_v4 \
--enable-auto-tool-choice --reasoning-parser deepseek_v4 \
--default-chat-template-kwargs '{"thinking":true}' \
--load-format safetensors \
--nnodes 2 --node-rank 1 \
--master-addr 10.0.0.1 --master-port 29501 \
--headless
