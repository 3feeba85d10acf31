"""Small networks for each medium, written as ONNX files, and hostile ones."""

import json

import numpy as np

RATE, N_SAMPLES = 16_000, 8000  # of the network for sounds
BANDS = 12
SIDE = 16  # of the network for pictures
WORDS = ["[PAD]", "[UNK]", "cow", "grass", "milk", "barn", "ship", "sea", "sail", "wave", "and", "the"]
TEXT_SIZE = 6


def _save(path, nodes, inputs, outputs, arrays, notes=None, **options):
    import onnx
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    helper.set_model_props(model, notes or {})
    onnx.save_model(model, path, **options)
    return path


def _nodes(*given):
    from onnx import helper

    return [helper.make_node(kind, inputs, outputs, **options) for kind, inputs, outputs, options in given]


def sound_network(path, axes=("n", 8000), notes=None):
    """Loudness of some bands of frequencies; the axes are those of its input."""
    from onnx import TensorProto

    t = np.arange(64)
    bank = [np.hanning(64) * np.cos(2 * np.pi * f * t / RATE) for f in np.linspace(500, 7500, BANDS)]
    arrays = {
        "bank": np.array(bank, dtype=np.float32)[:, None], "flat": np.array([-1, 1, N_SAMPLES]),
        "time": np.array([2]), "least": np.array(1e-4, dtype=np.float32),
    }  # fmt: skip
    nodes = _nodes(
        ("Reshape", ["sound", "flat"], ["line"], {}), ("Conv", ["line", "bank"], ["bands"], {"strides": [16]}),
        ("Abs", ["bands"], ["size"], {}), ("ReduceMean", ["size", "time"], ["mean"], {"keepdims": 0}),
        ("Add", ["mean", "least"], ["above"], {}), ("Log", ["above"], ["embedding"], {}),
    )  # fmt: skip
    batch = axes[0] if len(axes) > 1 else None
    outputs = [("embedding", TensorProto.FLOAT, [batch, BANDS])]
    return _save(path, nodes, [("sound", TensorProto.FLOAT, list(axes))], outputs, arrays, notes)


def network_of_shape(path, n_samples, outputs, batch="n", silent=True, scale=1.0):
    """Gives arrays of these sizes by name, linear in the loudness of 12 parts of the sound; "frames" are of each part.

    Unless `silent`, the loudness is a share of the whole, which digital silence has not: as BirdNET 3 has it.
    """
    from onnx import TensorProto

    rng = np.random.default_rng(1)
    arrays = {"parts": np.array([-1, BANDS, n_samples // BANDS]), "axis": np.array([2]), "all": np.array([1])}
    nodes = [
        ("Slice", ["sound", "first", "end", "all"], ["whole"], {}), ("Reshape", ["whole", "parts"], ["cut"], {}),
        ("Abs", ["cut"], ["size"], {}), ("ReduceMean", ["size", "axis"], ["loud"], {"keepdims": 0}),
        ("ReduceSum", ["loud", "all"], ["total"], {"keepdims": 1}),
        ("Identity", ["loud"], ["heard"], {}) if silent else ("Div", ["loud", "total"], ["heard"], {}),
    ]  # fmt: skip
    arrays |= {
        "first": np.array([0]),
        "end": np.array([BANDS * (n_samples // BANDS)]),
        "frame": np.array([-1, BANDS, 1]),
    }
    ports = []
    for name, size in outputs.items():
        if name == "frames":
            arrays["row"] = rng.standard_normal((1, size)).astype(np.float32)
            nodes += [("Reshape", ["heard", "frame"], ["framed"], {}), ("MatMul", ["framed", "row"], [name], {})]
            ports.append((name, TensorProto.FLOAT, [batch, BANDS, size]))
            continue
        arrays[f"of {name}"] = (scale * rng.standard_normal((BANDS, size))).astype(np.float32)
        linear = "linear" if name == "predictions" else name
        nodes.append(("MatMul", ["heard", f"of {name}"], [linear], {}))
        if linear != name:
            nodes.append(("Sigmoid", [linear], [name], {}))
        ports.append((name, TensorProto.FLOAT, [batch, size]))
    arrays["all"] = np.array([1])
    return _save(path, _nodes(*nodes), [("sound", TensorProto.FLOAT, [batch, n_samples])], ports, arrays)


def scoring_network(path, bands, gain=2.0):
    """The same, and scores of as many classes as there are bands, by how loud these are; and two that mean nothing."""
    from onnx import TensorProto, helper, load, numpy_helper, save_model

    model = load(sound_network(path, notes={"rate": str(RATE)}))
    weights = np.zeros((BANDS, len(bands) + 2), dtype=np.float32)
    weights[bands, np.arange(len(bands))] = gain
    model.graph.initializer.append(numpy_helper.from_array(weights, "weights"))
    model.graph.node.extend(_nodes(("MatMul", ["embedding", "weights"], ["label"], {})))
    model.graph.output.append(helper.make_tensor_value_info("label", TensorProto.FLOAT, ["n", len(bands) + 2]))
    save_model(model, path)
    return path


def picture_network(path, layout="nchw", batch="n", notes=None):
    """Mean colours of the four quarters; beside them an output that nobody asked for."""
    from onnx import TensorProto

    shape = [batch, 3, SIDE, SIDE] if layout == "nchw" else [batch, SIDE, SIDE, 3]
    order = [0, 1, 2, 3] if layout == "nchw" else [0, 3, 1, 2]
    nodes = _nodes(
        ("Transpose", ["picture"], ["channels"], {"perm": order}),
        ("AveragePool", ["channels"], ["quarters"], {"kernel_shape": [8, 8], "strides": [8, 8]}),
        ("Flatten", ["quarters"], ["embedding"], {"axis": 1}), ("Identity", ["quarters"], ["patches"], {}),
    )  # fmt: skip
    outputs = [("patches", TensorProto.FLOAT, [batch, 3, 2, 2]), ("embedding", TensorProto.FLOAT, [batch, 12])]
    return _save(path, nodes, [("picture", TensorProto.FLOAT, shape)], outputs, {}, notes)


def patch_network(path, n_others=1, size=6):
    """As DINOv2: tokens of patches of 4 x 4 points in rows, each linear in their colours, behind some others."""
    from onnx import TensorProto

    rng, n = np.random.default_rng(4), (SIDE // 4) ** 2
    arrays = {
        "weights": rng.standard_normal((size, 3, 4, 4)).astype(np.float32), "flat": np.array([0, size, n]),
        "others": 100 * rng.standard_normal((1, n_others, size)).astype(np.float32),
    }  # fmt: skip
    nodes = _nodes(
        ("Conv", ["pixel_values", "weights"], ["grid"], {"strides": [4, 4]}),
        ("Reshape", ["grid", "flat"], ["row"], {}), ("Transpose", ["row"], ["patches"], {"perm": [0, 2, 1]}),
        ("Concat", ["others", "patches"], ["last_hidden_state"], {"axis": 1}),
    )  # fmt: skip
    outputs = [("last_hidden_state", TensorProto.FLOAT, [1, n + n_others, size])]
    return _save(path, nodes, [("pixel_values", TensorProto.FLOAT, [1, 3, SIDE, SIDE])], outputs, arrays)


def text_network(path):
    """A vector for each token; and its tokenizer beside it."""
    from onnx import TensorProto
    from tokenizers import Tokenizer, models, pre_tokenizers

    table = np.random.default_rng(3).standard_normal((len(WORDS), TEXT_SIZE)).astype(np.float32)
    nodes = _nodes(
        ("Gather", ["table", "input_ids"], ["tokens"], {}), ("Cast", ["attention_mask"], ["kept"], {"to": 1}),
        ("Unsqueeze", ["kept", "last"], ["weights"], {}), ("Mul", ["tokens", "weights"], ["last_hidden_state"], {}),
    )  # fmt: skip
    inputs = [(name, TensorProto.INT64, ["n", "t"]) for name in ("input_ids", "attention_mask")]
    outputs = [("last_hidden_state", TensorProto.FLOAT, ["n", "t", TEXT_SIZE])]
    _save(path, nodes, inputs, outputs, {"table": table, "last": np.array([-1])})
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=64)  # as many published ones have it
    tokenizer.save(str(path.parent / "tokenizer.json"))
    return path, table


# ---------------------------------------------------------------------------------------------------------------------
# Networks that are refused


def _plain(nodes, path, arrays=None, size=8, **options):
    from onnx import TensorProto

    ports = [("sound", TensorProto.FLOAT, ["n", size])], [("embedding", TensorProto.FLOAT, None)]
    return _save(path, nodes, *ports, arrays or {}, **options)


def with_data_elsewhere(path, where):
    import onnx

    weights = {"w": np.ones((8, 4), dtype=np.float32)}
    _plain(_nodes(("MatMul", ["sound", "w"], ["embedding"], {})), path, weights)
    model = onnx.load(path)
    array = model.graph.initializer[0]
    array.ClearField("raw_data")
    array.data_location = onnx.TensorProto.EXTERNAL
    array.external_data.add(key="location", value=where)
    path.write_bytes(model.SerializeToString())


def with_own_operator(path):
    _plain(_nodes(("RunAnything", ["sound"], ["embedding"], {"domain": "evil.example"})), path)


def with_function(path):
    import onnx
    from onnx import helper

    _plain(_nodes(("Abs", ["sound"], ["embedding"], {})), path)
    model = onnx.load(path)
    body = [helper.make_node("Abs", ["a"], ["b"])]
    model.functions.append(
        helper.make_function("evil.example", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    )
    path.write_bytes(model.SerializeToString())


def with_circle(path):
    nodes = _nodes(("Add", ["sound", "later"], ["embedding"], {}), ("Abs", ["embedding"], ["later"], {}))
    _plain(nodes, path)


def with_missing_input(path):
    _plain(_nodes(("Add", ["sound", "nowhere"], ["embedding"], {})), path)


def with_huge_array(path):
    """Asks for 2^45 numbers on the way, in a file of a few hundred bytes."""
    nodes = _nodes(
        ("ConstantOfShape", ["shape"], ["huge"], {}), ("ReduceSum", ["huge"], ["total"], {"keepdims": 0}),
        ("Add", ["sound", "total"], ["embedding"], {}),
    )  # fmt: skip
    _plain(nodes, path, {"shape": np.array([2**15, 2**15, 2**15])})


def with_huge_claim(path):
    """An array that says it is far larger than the file."""
    import onnx

    _plain(_nodes(("MatMul", ["sound", "w"], ["embedding"], {})), path, {"w": np.ones((8, 4), dtype=np.float32)})
    model = onnx.load(path)
    model.graph.initializer[0].dims[:] = [2**20, 2**20]
    path.write_bytes(model.SerializeToString())


def with_huge_input(path):
    _plain(_nodes(("Abs", ["sound"], ["embedding"], {})), path, size=2**40)


def without_network(path):
    import onnx

    path.write_bytes(onnx.ModelProto(ir_version=9).SerializeToString())


def cut_off(path):
    sound_network(path)
    path.write_bytes(path.read_bytes()[:1000])


def no_onnx(path):
    path.write_text(json.dumps({"this": "is no network"}))


def empty(path):
    path.write_bytes(b"")


HOSTILE = {
    "elsewhere": (lambda path: with_data_elsewhere(path, "../../etc/passwd"), "lies in another file"),
    "beside": (lambda path: with_data_elsewhere(path, "weights.bin"), "lies in another file"),
    "operator": (with_own_operator, "operators of others are not run"),
    "function": (with_function, "operators of its own"),
    "circle": (with_circle, "goes in a circle"),
    "missing": (with_missing_input, "is not whole"),
    "huge array": (with_huge_array, "use another network"),
    "huge claim": (with_huge_claim, "bytes of it are there"),
    "huge input": (with_huge_input, "use another network"),
    "nothing": (without_network, "holds no network"),
    "cut off": (cut_off, "damaged, cut off, or no ONNX file"),
    "other": (no_onnx, "damaged, cut off, or no ONNX file"),
    "empty": (empty, "the file is empty"),
}


def without_end(path, silence_too=True):
    """Counts to 2^60 before it gives a vector, or does so for what is not silent."""
    from onnx import TensorProto, helper

    body = helper.make_graph(
        _nodes(("Identity", ["go"], ["goes on"], {}), ("Add", ["now", "now"], ["then"], {})),
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("now", TensorProto.FLOAT, ["n", 8]),
        ],
        [
            helper.make_tensor_value_info("goes on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("then", TensorProto.FLOAT, ["n", 8]),
        ],
    )
    nodes = _nodes(
        ("Abs", ["sound"], ["loud"], {}), ("ReduceMax", ["loud"], ["loudest"], {"keepdims": 0}),
        ("GreaterOrEqual" if silence_too else "Greater", ["loudest", "nothing"], ["heard"], {}),
        ("Cast", ["heard"], ["one"], {"to": TensorProto.INT64}), ("Mul", ["one", "many"], ["most"], {}),
        ("Loop", ["most", "", "sound"], ["embedding"], {"body": body}),
    )  # fmt: skip
    return _plain(nodes, path, {"many": np.array(2**60), "nothing": np.array(0, dtype=np.float32)})


def at_run_time(path, how, numbers):
    """An array of so many numbers, whose size no one can know before the network runs."""
    from onnx import TensorProto

    arrays = {
        "nothing": np.array(0, dtype=np.float32), "numbers": np.array(numbers, dtype=np.float32),
        "one": np.array([1]), "number": np.array([], dtype=np.int64), "first": np.array(0), "step": np.array(1),
    }  # fmt: skip
    ways = {
        "ConstantOfShape": [("ConstantOfShape", ["size"], ["huge"], {})],
        "Expand": [("Expand", ["nothing", "size"], ["huge"], {})],
        "Tile": [("Reshape", ["nothing", "one"], ["line"], {}), ("Tile", ["line", "size"], ["huge"], {})],
        "Range": [
            ("Reshape", ["size", "number"], ["end"], {}), ("Range", ["first", "end", "step"], ["whole"], {}),
            ("Cast", ["whole"], ["huge"], {"to": TensorProto.FLOAT}),
        ],
    }  # fmt: skip
    nodes = _nodes(
        ("ReduceSum", ["sound"], ["sum"], {"keepdims": 0}), ("Mul", ["sum", "nothing"], ["zero"], {}),
        ("Add", ["zero", "numbers"], ["many"], {}), ("Cast", ["many"], ["count"], {"to": TensorProto.INT64}),
        ("Reshape", ["count", "one"], ["size"], {}), *ways[how], ("ReduceMax", ["huge"], ["most"], {"keepdims": 0}),
        ("Add", ["sound", "most"], ["embedding"], {}),
    )  # fmt: skip
    return _plain(nodes, path, arrays)


def slow_to_load(path, n_products=5000, side=1500):
    """A few hundred kilobytes of products of a matrix that is made on the way: worked out when it is loaded."""
    nodes = _nodes(
        ("ConstantOfShape", ["size"], ["p0"], {}),
        *[("MatMul", [f"p{i}", "p0"], [f"p{i + 1}"], {}) for i in range(n_products)],
        ("ReduceMax", [f"p{n_products}"], ["most"], {"keepdims": 0}), ("Add", ["sound", "most"], ["embedding"], {}),
    )  # fmt: skip
    return _plain(nodes, path, {"size": np.array([side, side])})


def of_wide_output(path, numbers):
    """A vector of so many numbers for each instance."""
    nodes = _nodes(("Tile", ["sound", "times"], ["embedding"], {}))
    return _plain(nodes, path, {"times": np.array([1, numbers // 8])})


def two_sizes_of_vectors(path):
    """Vectors whose length follows from what is in the sound: eight numbers of silence, sixteen of the rest."""
    nodes = _nodes(
        ("Abs", ["sound"], ["loud"], {}), ("ReduceMax", ["loud"], ["most"], {"keepdims": 0}),
        ("Greater", ["most", "nothing"], ["heard"], {}), ("Cast", ["heard"], ["count"], {"to": 7}),
        ("Add", ["count", "one"], ["times"], {}), ("Reshape", ["times", "one"], ["wide"], {}),
        ("Concat", ["one", "wide"], ["all"], {"axis": 0}), ("Tile", ["sound", "all"], ["embedding"], {}),
    )  # fmt: skip
    return _plain(nodes, path, {"nothing": np.array(0, dtype=np.float32), "one": np.array([1])})
