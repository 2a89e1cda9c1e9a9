"""The encoder of the original Transformer (Vaswani et al. 2017); transformers has no class for it alone."""

from spanlab.encoder.architectures.base import Architecture, build_transformer

TRANSFORMER = Architecture(
    name="transformer",
    presets={
        "transformer": {
            "vocab_size": 37000,
            "positions": "sinusoidal",
            "segments": 0,
            "scale_embeddings": True,
            "embedding_norm": False,
            "activation": "relu",
            "norm_eps": 1e-5,
            "pooler": False,
        },
    },
    build=build_transformer,
)
