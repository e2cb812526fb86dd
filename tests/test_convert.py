import io
import json
import os
import pickle

import numpy as np
import pytest
import torch

from engine import convert
from engine.core.errors import DamagedFile


class Attack:
    def __reduce__(self):
        return os.system, ("echo ran > /dev/null",)


def test_the_array_unpickler_refuses_os_system(monkeypatch):
    ran = []
    monkeypatch.setattr(os, "system", ran.append)
    with pytest.raises(DamagedFile, match="not an array"):
        convert.ArraysOnly(io.BytesIO(pickle.dumps(Attack()))).load()
    assert not ran


@pytest.mark.parametrize("name", ["eval", "exec", "getattr", "__import__"])
def test_the_array_unpickler_refuses_builtins(name):
    with pytest.raises(DamagedFile, match="not an array"):
        convert.ArraysOnly(io.BytesIO(f"cbuiltins\n{name}\n.".encode())).load()


def test_a_flax_trunk_becomes_torch_convolutions():
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(3, 2, 5, 4)).astype(np.float32)  # H W I O
    bias = rng.normal(size=4).astype(np.float32)
    tree = {"Net_0": {"Conv_0": {"kernel": kernel, "bias": bias}}, "NetLinLayer_0": {"Conv_0": {"kernel": kernel}}}
    made = convert.lpips_trunk({"net.ckpt": pickle.dumps(tree, protocol=3)})
    assert set(made) == {"conv0.weight", "conv0.bias"}
    assert made["conv0.weight"][3, 4, 2, 1] == kernel[2, 1, 4, 3]
    assert torch.equal(made["conv0.bias"], torch.from_numpy(bias))


def test_a_state_dict_loses_its_wrapper_its_counters_and_its_underscores():
    content = io.BytesIO()
    state = {"_blocks.0._conv.weight": torch.ones(2), "bn.num_batches_tracked": torch.tensor(3)}
    torch.save({"netG_state_dict": state}, content)
    made = convert.torch_state({"weights.tar": content.getvalue()})
    assert list(made) == ["blocks.0.conv.weight"]


def test_a_torch_file_that_would_run_code_is_refused(monkeypatch):
    ran = []
    monkeypatch.setattr(os, "system", ran.append)
    content = io.BytesIO()
    torch.save({"state_dict": Attack()}, content)
    with pytest.raises(DamagedFile, match="not a file of weights alone"):
        convert.torch_state({"model.pt": content.getvalue()})
    assert not ran


XML = """<?xml version="1.0"?>{doctype}
<net name="ToyNetwork" version="10"><layers>
 <layer id="0" name="in" type="Parameter"><data shape="1, 2" element_type="f32"/></layer>
 <layer id="7" name="w" type="Const"><data element_type="f32" shape="2, 3" offset="8" size="24"/></layer>
 <layer id="3" name="axis" type="Const"><data element_type="i64" shape="" offset="0" size="8"/></layer>
 <layer id="12" name="one" type="Const"><data element_type="f32" shape="" offset="32" size="4"/></layer>
</layers></net>"""


def toy_ir(doctype=""):
    weights = np.int64(1).tobytes() + np.arange(6, dtype="<f4").tobytes() + np.float32(9).tobytes()
    return {"data/ToyNetwork.xml": XML.format(doctype=doctype).encode(), "data/ToyNetwork.bin": weights}


def test_the_float_constants_of_an_ir_come_by_layer_in_graph_order():
    made = convert.openvino(toy_ir())
    assert sorted(made) == ["toy/0007.w", "toy/0012.one"]
    assert torch.equal(made["toy/0007.w"], torch.arange(6.0).reshape(2, 3))
    assert made["toy/0012.one"].shape == () and made["toy/0012.one"] == 9


def test_an_xml_with_entities_is_refused():
    bomb = '<!DOCTYPE net [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    with pytest.raises(DamagedFile, match="document type"):
        convert.openvino(toy_ir(bomb))


def test_a_cut_off_xml_is_a_damaged_file():
    files = toy_ir()
    files["data/ToyNetwork.xml"] = files["data/ToyNetwork.xml"][:200]
    with pytest.raises(DamagedFile, match="cannot be read"):
        convert.openvino(files)


def tfjs_files(extra=b""):
    weights = [
        {"name": "a/conv0/depthwise_filter", "shape": [3, 3, 2, 1], "dtype": "float32"},
        {"name": "a/conv0/pointwise_filter", "shape": [1, 1, 2, 4], "dtype": "float32",
         "quantization": {"dtype": "uint8", "scale": 0.5, "min": -1.0}},
        {"name": "a/conv0/bias", "shape": [4], "dtype": "float32"},
        {"name": "b/filters", "shape": [1, 1, 1, 1], "dtype": "float32"},
        {"name": "b/bias", "shape": [1], "dtype": "float32"},
        {"name": "fc", "shape": [2, 3], "dtype": "float32"},
    ]  # fmt: skip
    content = np.arange(18, dtype="<f4").tobytes() + bytes(range(8)) + np.arange(12, dtype="<f4").tobytes() + extra
    return {
        "m-weights_manifest.json": json.dumps([{"weights": weights, "paths": ["m.bin"]}]).encode(),
        "m.bin": content,
    }


def test_a_tfjs_manifest_is_dequantised_and_laid_out_for_torch():
    made = convert.tfjs(tfjs_files())
    names = "a.conv0.depthwise.weight a.conv0.pointwise.weight a.conv0.pointwise.bias b.weight b.bias fc.weight"
    assert list(made) == names.split()
    assert made["a.conv0.depthwise.weight"].shape == (2, 1, 3, 3)
    assert made["a.conv0.depthwise.weight"][1, 0, 2, 0] == 13  # HWC1: (2 * 3 + 0) * 2 + 1
    # [1, 1, 2, 4] of 0..7 to [4, 2, 1, 1]: output 3, input 1 is byte 7, so 7 * 0.5 - 1
    assert made["a.conv0.pointwise.weight"][3, 1, 0, 0] == 2.5
    assert torch.equal(made["fc.weight"], torch.arange(6.0, 12.0).reshape(2, 3).T)


def test_a_tfjs_file_of_another_length_is_refused():
    with pytest.raises(DamagedFile, match="the weight file has"):
        convert.tfjs(tfjs_files(extra=b"\0"))
