"""Small .tflite files, written by the flatbuffers package, and damaged ones."""

import flatbuffers
import numpy as np

FLOAT32 = 0
FULLY_CONNECTED, LOGISTIC, CUSTOM = 9, 14, 32
N_SAMPLES, N_HIDDEN, N_SCORES = 8, 3, 2


def _table(builder, n_fields, fields):
    """A table with these fields, each a slot, how it is prepended, and its value."""
    builder.StartObject(n_fields)
    for slot, kind, value in fields:
        getattr(builder, f"Prepend{kind}Slot")(slot, value, 0)
    return builder.EndObject()


def _offsets(builder, places):
    builder.StartVector(4, len(places), 4)
    for place in reversed(places):
        builder.PrependUOffsetTRelative(place)
    return builder.EndVector()


def _ints(builder, values):
    return builder.CreateNumpyVector(np.asarray(values, dtype=np.int32))


def _bytes(builder, values):
    data = np.frombuffer(values, dtype=np.uint8)
    builder.StartVector(1, len(data), 16)
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data.tobytes()
    return builder.EndVector()


def write_network(path, tensors, operators, inputs, outputs, codes, custom=None):
    """A .tflite file.

    `tensors` are (name, shape, values or None); an open axis is -1. `operators` are (code, inputs, outputs).
    """
    builder = flatbuffers.Builder(4096)
    arrays = [np.asarray(values, dtype=np.float32) for _, _, values in tensors if values is not None]
    buffers = [_table(builder, 3, [])]
    for array in arrays:
        data = _bytes(builder, array.tobytes())
        buffers.append(_table(builder, 3, [(0, "UOffsetTRelative", data)]))
    tables, n_seen = [], 0
    for name, shape, values in tensors:
        n_seen += values is not None
        parts = [builder.CreateString(name), _ints(builder, [abs(n) for n in shape]), _ints(builder, shape)]
        fields = [(0, "UOffsetTRelative", parts[1]), (1, "Int8", FLOAT32)]
        fields += [(2, "Uint32", 0 if values is None else n_seen), (3, "UOffsetTRelative", parts[0])]
        tables.append(_table(builder, 9, [*fields, (7, "UOffsetTRelative", parts[2])]))
    made = []
    for code, given, gives in operators:
        parts = [_ints(builder, given), _ints(builder, gives)]
        fields = [(0, "Uint32", code), (1, "UOffsetTRelative", parts[0]), (2, "UOffsetTRelative", parts[1])]
        if codes[code] == FULLY_CONNECTED:
            options = _table(builder, 5, [])
            fields += [(3, "Uint8", 8), (4, "UOffsetTRelative", options)]  # FullyConnectedOptions
        made.append(_table(builder, 9, fields))
    lists = [_offsets(builder, tables), _ints(builder, inputs), _ints(builder, outputs), _offsets(builder, made)]
    graph = _table(builder, 5, [(slot, "UOffsetTRelative", place) for slot, place in enumerate(lists)])
    names = [builder.CreateString(custom) if code == CUSTOM else None for code in codes]
    numbers = [
        _table(builder, 4, [(0, "Int8", code), *([(1, "UOffsetTRelative", name)] if name else []), (2, "Int32", 1),
                            (3, "Int32", code)])
        for code, name in zip(codes, names, strict=True)
    ]  # fmt: skip
    parts = [_offsets(builder, numbers), _offsets(builder, [graph]), _offsets(builder, buffers)]
    fields = [(slot, "UOffsetTRelative", place) for slot, place in zip((1, 2, 4), parts, strict=True)]
    model = _table(builder, 8, [(0, "Uint32", 3), *fields])
    builder.Finish(model, file_identifier=b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def weights(n_samples=N_SAMPLES, n_hidden=N_HIDDEN, n_scores=N_SCORES):
    rng = np.random.default_rng(0)
    shapes = (n_hidden, n_samples), (n_hidden,), (n_scores, n_hidden), (n_scores,)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def sound_network(path, n_samples=N_SAMPLES, n_hidden=N_HIDDEN, n_scores=N_SCORES, *, rows=-1, vector="POOL/Mean"):
    """Two layers: samples to a vector inside of the network, and that to scores, its only output."""
    first, first_bias, second, second_bias = weights(n_samples, n_hidden, n_scores)
    tensors = [
        ("INPUT", [rows, n_samples], None), ("w1", first.shape, first), ("b1", first_bias.shape, first_bias),
        (vector, [rows, n_hidden], None), ("w2", second.shape, second), ("b2", second_bias.shape, second_bias),
        ("Identity", [rows, n_scores], None),
    ]  # fmt: skip
    operators = [(0, [0, 1, 2], [3]), (0, [3, 4, 5], [6])]
    return write_network(path, tensors, operators, [0], [6], [FULLY_CONNECTED])


def expected(samples, **sizes):
    """Vector and scores of `sound_network`."""
    first, first_bias, second, second_bias = weights(**sizes)
    hidden = samples @ first.T + first_bias
    return hidden, hidden @ second.T + second_bias


def birdnet_like(path):
    """What BirdNET takes and gives, in small: a window of 3 s at 48 kHz, an inner vector, 6,522 scores."""
    return sound_network(path, 144_000, 4, 6522, vector="model/GLOBAL_AVG_POOL/Mean")


def with_own_operator(path):
    tensors = [("INPUT", [-1, N_SAMPLES], None), ("OUT", [-1, N_SAMPLES], None)]
    return write_network(path, tensors, [(0, [0], [1])], [0], [1], [CUSTOM], custom="RunAnything")


def without_operators(path):
    return write_network(path, [("INPUT", [-1, N_SAMPLES], None)], [], [0], [0], [])


def with_missing_tensor(path):
    tensors = [("INPUT", [-1, N_SAMPLES], None), ("OUT", [-1, N_SAMPLES], None)]
    return write_network(path, tensors, [(0, [7], [1])], [0], [1], [LOGISTIC])


def with_huge_tensor(path):
    tensors = [("INPUT", [-1, 2**30], None), ("OUT", [-1, 2**30], None)]
    return write_network(path, tensors, [(0, [0], [1])], [0], [1], [LOGISTIC])


def cut_off(path):
    sound_network(path)
    path.write_bytes(path.read_bytes()[:200])
    return path


HOSTILE = {
    "operator": (with_own_operator, "operators of others are not run"),
    "nothing": (without_operators, "holds no network"),
    "tensor": (with_missing_tensor, "names a tensor that it has not"),
    "huge": (with_huge_tensor, "use another network"),
    "cut off": (cut_off, "damaged, cut off, or no .tflite file"),
}
