"""Writes the lab's model: a Llama of random weights and a byte-level tokenizer, about 3 MB, to the folder named first.

Runs with the lab's vLLM interpreter. Seeded: two builds give the same weights.
"""

import sys

import torch  # type: ignore[import-not-found]
from tokenizers import (  # type: ignore[import-not-found]
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    trainers,
)
from transformers import (  # type: ignore[import-not-found]
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

BOS, EOS, PAD = "<s>", "</s>", "<pad>"
CORPUS = [
    "The quick brown fox jumps over the lazy dog.",
    "A supervisor starts the ranks, watches them, and says why they ended.",
    "user: hello assistant: hello, how can I help you today?",
]
CHAT = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"

target = sys.argv[1]

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=512, special_tokens=[BOS, EOS, PAD], initial_alphabet=alphabet)
tokenizer.train_from_iterator(CORPUS, trainer)
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=PAD)
fast.chat_template = CHAT
fast.save_pretrained(target)

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=512,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=2048,
    bos_token_id=fast.bos_token_id,
    eos_token_id=fast.eos_token_id,
    pad_token_id=fast.pad_token_id,
    torch_dtype="bfloat16",
)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(target)
