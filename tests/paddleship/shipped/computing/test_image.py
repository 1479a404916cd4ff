"""Pictures: bytes in, normalised pixels out; and files that are no picture, damaged, or too large."""

import io
import subprocess
import sys
import zlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageCms

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.features import Features
from paddleship.shipped.computing.preprocess.image import Picture
from paddleship.shipped.computing.spec import Dimension, TensorSpec
from tests.pictures import drawn, encoded

SPEC = TensorSpec("x", "float32", ("batch", 3, 16, 16))
BYTES = TensorSpec("x", "uint8", ("batch", "height", "width", 3))
LINE = TensorSpec("x", "float32", ("batch", 3, 48, "width"))
GRAY = TensorSpec("x", "uint8", ("batch", "height", "width"))


def picture(spec=SPEC, **params):
    return Picture(column="photo", spec=spec, **params)


def pixels(content, **params):
    """The pixels of a picture as they are decoded."""
    return picture(BYTES, resize="none", **params).encode(content)


def test_pixels_are_scaled_and_normalised_by_channel_in_the_layout_of_the_input():
    content, mean, std = encoded(drawn(16, 16)), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    expected = ((np.asarray(drawn(16, 16)) / 255 - mean) / std).astype(np.float32)
    first = picture(resize="none", mean=mean, std=std).encode(content)
    last = picture(TensorSpec("x", "float32", ("batch", 16, 16, 3)), resize="none", mean=mean, std=std).encode(content)
    np.testing.assert_array_equal(first, expected.transpose(2, 0, 1))
    np.testing.assert_array_equal(last, expected)
    assert first.dtype == np.float32


def test_colours_have_the_order_that_is_asked_for():
    content = encoded(Image.new("RGB", (8, 8), (200, 100, 50)))
    assert pixels(content)[0, 0].tolist() == [200, 100, 50]
    assert pixels(content, color="bgr")[0, 0].tolist() == [50, 100, 200]
    assert picture(GRAY, resize="none", color="gray").encode(content)[0, 0] == round(0.299 * 200 + 0.587 * 100 + 0.114 * 50)
    one = TensorSpec("x", "uint8", ("batch", 1, "height", "width"))
    assert picture(one, resize="none", color="gray").encode(content).shape == (1, 8, 8)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_its_exif_says(orientation):
    upright, exif = drawn(), Image.Exif()
    exif[0x0112] = orientation
    undo = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_90", 7: "TRANSVERSE", 8: "ROTATE_270"}
    stored = upright.transpose(Image.Transpose[undo[orientation]]) if orientation > 1 else upright
    for form in ("JPEG", "PNG", "WEBP"):
        content = encoded(stored, form, exif=exif, quality=95) if form != "PNG" else encoded(stored, form, exif=exif)
        turned = pixels(content)
        assert turned.shape == (30, 40, 3)
        assert np.abs(turned.astype(int) - np.asarray(upright)).max() <= (0 if form == "PNG" else 12), (form, orientation)


def test_damaged_exif_turns_nothing():
    content = encoded(drawn(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert pixels(content).shape == (30, 40, 3)


def test_cmyk_palette_and_gray_are_read_as_colours():
    cmyk = encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95)
    assert np.abs(pixels(cmyk)[4, 4].astype(int) - [255, 0, 0]).max() <= 3
    palette = drawn().quantize(16)
    np.testing.assert_array_equal(pixels(encoded(palette)), np.asarray(palette.convert("RGB")))
    assert pixels(encoded(Image.new("L", (8, 8), 77)))[0, 0].tolist() == [77] * 3
    assert pixels(encoded(Image.new("1", (8, 8), 1)))[0, 0].tolist() == [255] * 3
    assert pixels(encoded(Image.new("RGB", (8, 8), (1, 2, 3)), "BMP"))[0, 0].tolist() == [1, 2, 3]


def test_16_bits_are_scaled_to_8():
    ramp = np.arange(256, dtype=np.uint16).repeat(8).reshape(-1, 8) * 257
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(ramp)))[:, 0, 0], np.arange(256))


def test_16_bits_of_colour_are_scaled_to_8():
    wide = np.broadcast_to(np.uint16([65535, 32896, 257]), (4, 4, 3))
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in wide)
    parts = [(b"IHDR", (4).to_bytes(4, "big") * 2 + bytes([16, 2, 0, 0, 0])), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    chunks = [len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big") for name, data in parts]
    assert pixels(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))[0, 0].tolist() == [255, 128, 1]


def test_what_is_transparent_shows_the_background():
    half = encoded(Image.new("RGBA", (8, 8), (255, 0, 0, 0)))
    assert pixels(half)[0, 0].tolist() == [255] * 3
    assert pixels(half, background=[10, 20, 30])[0, 0].tolist() == [10, 20, 30]
    assert pixels(encoded(Image.new("LA", (8, 8), (0, 128))), background=0)[0, 0].tolist() == [0] * 3
    palette = Image.new("P", (8, 8), 1)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    assert pixels(encoded(palette, transparency=1), background=50)[0, 0].tolist() == [50] * 3
    deep = Image.fromarray(np.full((8, 8), 4000, np.uint16))
    assert pixels(encoded(deep, transparency=4000), background=60)[0, 0].tolist() == [60] * 3


def test_of_an_animation_the_first_frame_is_read():
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    content = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert pixels(content)[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("size", [(40, 30), (30, 40), (16, 16), (9, 7)])
def test_the_shorter_side_is_resized_and_the_centre_cropped(size):
    row = picture(resize_to=20).encode(encoded(drawn(*size)))
    width, height = (round(20 * side / min(size)) for side in size)
    resized = drawn(*size).resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - 16) // 2, (height - 16) // 2
    cropped = np.asarray(resized.crop((left, top, left + 16, top + 16)))
    np.testing.assert_array_equal(row, (cropped.transpose(2, 0, 1) / 255).astype(np.float32))


def test_exact_and_fit_fill_the_input_each_in_its_way():
    red = encoded(Image.new("RGB", (40, 20), "red"))
    assert (picture(resize="exact").encode(red)[0] == 1).all()
    fitted = picture(resize="fit", background=0).encode(red)[0]
    assert fitted.shape == (16, 16)
    np.testing.assert_array_equal(fitted.any(axis=1), [*[False] * 4, *[True] * 8, *[False] * 4])


def test_a_line_of_text_keeps_its_aspect_up_to_the_largest_width():
    line = picture(LINE, resize="height", max_side=320, multiple_of=32, mean=0.5, std=0.5)
    rows = [line.encode(encoded(drawn(width, 24))) for width in (30, 100, 1000)]
    assert [row.shape for row in rows] == [(3, 48, 60), (3, 48, 200), (3, 48, 320)]
    batch = line.collate(rows[:2])
    assert batch.shape == (2, 3, 48, 224)
    assert (batch[0, :, :, 60:] == 0).all()
    np.testing.assert_array_equal(batch[1, :, :, :200], rows[1])
    assert line.collate(rows[:1]).shape == (1, 3, 48, 64)
    assert line.sizes(2, []) == Dimension("width", 32, 320, 32)


def test_short_lines_of_text_are_padded_to_the_least_width():
    line = picture(LINE, resize="height", min_side=300, max_side=640, multiple_of=32)
    assert line.collate([line.encode(encoded(drawn(30, 24)))]).shape == (1, 3, 48, 320)
    assert line.collate([line.encode(encoded(drawn(1000, 48)))]).shape == (1, 3, 48, 640)
    assert line.sizes(2, []) == Dimension("width", 320, 640, 32)


def test_a_line_of_fixed_width_is_padded_in_its_row():
    line = picture(TensorSpec("x", "float32", ("batch", 3, 48, 100)), resize="height", mean=0.5, std=0.5)
    row = line.encode(encoded(Image.new("RGB", (24, 24), "white")))
    assert row.shape == (3, 48, 100)
    assert (row[:, :, :48] == 1).all()
    assert (row[:, :, 48:] == 0).all()


def test_both_sides_may_follow_from_the_picture():
    open_sides = TensorSpec("x", "float32", ("batch", 3, "height", "width"))
    page = picture(open_sides, resize="longer", max_side=64, multiple_of=32)
    assert page.encode(encoded(drawn(200, 100))).shape == (3, 32, 64)
    assert page.encode(encoded(drawn(40, 20))).shape == (3, 32, 32)
    assert page.sizes(1, []) == Dimension("height", 32, 64, 32)


def test_a_bomb_is_refused_from_its_header():
    big = encoded(Image.new("1", (6000, 5000)))
    with pytest.raises(RequestError, match=r"input 'photo' has 6,000 × 5,000 pixels, and the limit is 25,000,000: make it smaller first"):
        picture().encode(big)
    assert picture(max_pixels=30_000_000).encode(big).shape == (3, 16, 16)
    (bomb,) = [value for name, value in picture().malformed(encoded(drawn())) if "pixels" in name]
    with pytest.raises(RequestError, match=r"input 'photo' has more than 25,000,000 pixels"):
        picture().encode(bomb)
    needs = r"is 5,000,000 × 1 pixels, which needs 80,000,000 pixels to be resized to 80,000,000 × 16, and the limit is 50,000,000: crop it"
    with pytest.raises(RequestError, match=needs.replace("80,000,000 pixels", r"[\d,]+ pixels")):
        picture(max_pixels=100_000_000).encode(encoded(Image.new("1", (5_000_000, 1))))
    assert picture(max_pixels=100_000_000).encode(encoded(Image.new("1", (1, 5_000)))).shape == (3, 16, 16)
    with pytest.raises(RequestError, match=r"has [\d,]+ bytes, and the limit is 50: give a smaller file"):
        picture(max_bytes=50).encode(encoded(drawn()))


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP", "GIF"])
def test_a_truncated_picture_is_refused(form):
    content = encoded(drawn(64, 64), form)
    assert picture().encode(content).shape == (3, 16, 16)
    with pytest.raises(RequestError, match=r"input 'photo' is (a damaged \w+ picture \(.+\): give the whole file|not a picture, or its)"):
        picture().encode(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("cat.jpg", r"must be the bytes of a picture \(got str\): give the bytes of the file, in JSON as base64"),
        (np.zeros(3), r"must be the bytes of a picture \(got ndarray\)"),
        (b"", r"is empty: give the bytes of a JPEG, PNG, WEBP, BMP or GIF file"),
        (b"a cat", r"is not a picture, or its beginning is damaged \(it begins with b'a cat'\): give the bytes of a JPEG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", r"is not a picture"),
    ],
)
def test_what_is_no_picture_is_refused_with_what_to_give(value, message):
    for ask in (picture().encode, picture().accept):
        with pytest.raises(RequestError, match=f"input 'photo' {message}"):
            ask(value)


def test_all_malformed_values_are_refused():
    for name, value in picture().malformed(encoded(drawn(), "JPEG")):
        with pytest.raises(RequestError):
            pytest.fail(f"{name}: {picture().encode(value)}")


@pytest.mark.parametrize(
    ("spec", "params", "message"),
    [
        (TensorSpec("x", "float32", ("batch", 3, 8, 3)), {}, "both its first and its last size may be the 3 channels"),
        (TensorSpec("x", "float32", ("batch", 4, 8, 8)), {}, r"has the shape \['batch', 4, 8, 8\], without an axis of 3 for color: rgb"),
        (TensorSpec("x", "float32", ("batch", 3, 8, 8)), {"color": "gray"}, "without an axis of 1 for color: gray"),
        (TensorSpec("x", "int64", ("batch", 3, 8, 8)), {}, "has the dtype int64: declare one of float16"),
        (SPEC, {"mean": [1, 2]}, "has 2 channels in mean: set one number, or 3"),
        (SPEC, {"std": 0.0}, "a std that is not above 0"),
        (SPEC, {"background": 300}, "background"),
        (SPEC, {"resize_to": 8}, "is 16 × 16, and resize_to is 8"),
        (SPEC, {"resize": "longer"}, "fixes a side, and resize: longer needs both open"),
        (LINE, {"resize": "height", "min_side": 2000}, "has min_side 2000 above max_side 960"),
        (LINE, {}, "leaves a side open, and resize: shorter needs both"),
        (BYTES, {"resize": "height"}, "leaves the height open"),
        (TensorSpec("x", "uint8", ("batch", 3, 8, 8)), {"scale": 1 / 255}, "is uint8, which cannot hold what scale, mean and std give"),
        (SPEC, {"max_pixels": 10**9}, "has max_pixels 1,000,000,000: set 178,956,970 at most"),
    ],
)
def test_params_that_do_not_fit_the_input_are_refused(spec, params, message):
    with pytest.raises(DataError, match=f"the picture 'x' of model.inputs .*{message}"):
        picture(spec, **params)


def test_the_range_follows_from_the_table():
    spec = picture(mean=[0.5, 0.25, 0.5], std=[0.5, 0.5, 0.25]).limited([])
    assert (spec.low, spec.high) == (-2, 2)
    assert picture(LINE, resize="height").limited([]).high == 1
    padded = picture(replace(LINE, pad=-3), resize="height").limited([])
    assert padded.low == -3
    with pytest.raises(DataError, match=r"has the range 0 … 0.5, and scale, mean and std give 0 to 1: remove low and high"):
        picture(replace(SPEC, low=0, high=0.5)).limited([])


def test_pictures_are_the_same_if_their_pixels_are():
    one = picture()
    exif = Image.Exif()
    exif[0x010E] = "a description"
    same = [encoded(drawn()), encoded(drawn(), "BMP"), encoded(drawn(), compress_level=0), encoded(drawn(), exif=exif)]
    assert len({one.same(content) for content in same}) == 1
    assert one.same(encoded(drawn(seed=1))) != one.same(same[0])


def test_drift_is_measured_in_numbers_and_never_in_pixels():
    config = {"inputs": {"x": {"kind": "image", "column": "photo", "mean": [0.5, 0.4, 0.3], "std": 0.5}}}
    features = Features([SPEC], config)
    assert features.names == ("photo.width", "photo.height", "photo.brightness", "photo.contrast")
    content = encoded(Image.new("RGB", (60, 20), (51, 102, 153)))
    columns = {"photo": [content]}
    (example,) = preprocess.build(config, [SPEC]).encode(columns)
    width, height, brightness, contrast = features.of(example, features.of_values(columns, 0))
    assert (width, height) == (60, 20)
    assert brightness == pytest.approx(0.4, abs=1e-6)
    assert contrast == pytest.approx(np.std([0.2, 0.4, 0.6]), abs=1e-6)


def test_a_row_is_the_same_in_every_process(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(encoded(drawn(300, 200), "JPEG"))
    code = (
        "import sys, pathlib\nfrom paddleship.shipped.computing import preprocess, spec as specs\n"
        "spec = specs.TensorSpec('x', 'float32', ('batch', 3, 16, 16))\n"
        "made = preprocess.build({'inputs': {'x': {'kind': 'image', 'column': 'photo', 'mean': 0.4, 'std': 0.3}}}, [spec])\n"
        "(row,) = made.encode({'photo': [pathlib.Path(sys.argv[1]).read_bytes()]})\nsys.stdout.buffer.write(row['x'].tobytes())\n"
    )
    other = subprocess.run([sys.executable, "-c", code, str(tmp_path / "photo.jpg")], capture_output=True, check=True).stdout
    assert other == picture(mean=0.4, std=0.3).encode((tmp_path / "photo.jpg").read_bytes()).tobytes()


def test_a_colour_profile_changes_nothing():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    np.testing.assert_array_equal(pixels(encoded(drawn(), icc_profile=profile)), np.asarray(drawn()))


def test_a_file_with_two_pictures_in_it_is_read_as_the_first():
    file = io.BytesIO()
    drawn().save(file, "MPO", save_all=True, append_images=[drawn(seed=1)])
    assert pixels(file.getvalue()).shape == (30, 40, 3)


@pytest.mark.parametrize("form", ["WEBP", "GIF", "BMP", "RGB"])
def test_a_gray_picture_is_the_same_in_every_lossless_format(form):
    gray = drawn().convert("L")
    other = encoded(gray.convert("RGB")) if form == "RGB" else encoded(gray, form, **({"lossless": True} if form == "WEBP" else {}))
    assert picture(BYTES, resize="none").same(other) == picture(BYTES, resize="none").same(encoded(gray))


def test_a_jpeg_of_very_many_scans_is_refused_before_it_is_decoded():
    """Each scan goes over all pixels: 200 kB of them take many seconds."""
    content = encoded(drawn(), "JPEG", progressive=True)
    last = content.rindex(b"\xff\xda")
    assert pixels(content).shape == (30, 40, 3)
    with pytest.raises(RequestError, match=r"is a JPEG of 1,.* scans, and the limit is 100: save the picture again"):
        pixels(content[:-2] + content[last:-2] * 1500 + content[-2:])
