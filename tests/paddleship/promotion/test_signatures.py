import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat, PublicFormat

from paddleship.errors import BadInput
from paddleship.promotion import signatures

DIGEST = "sha256:" + "d" * 64
REFERENCE = f"127.0.0.1:5000/paddleship/reviews@{DIGEST}"


def write(folder, key, *, passphrase=None):
    form = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    (folder / "sign.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, form))
    (folder / "verify.pem").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return folder / "sign.pem", folder / "verify.pem"


def new_key():
    return ec.generate_private_key(ec.SECP256R1())


def test_what_is_signed_is_the_text_that_cosign_signs():
    text = json.loads(signatures.payload(REFERENCE))
    assert text["critical"] == {
        "identity": {"docker-reference": "127.0.0.1:5000/paddleship/reviews"},
        "image": {"docker-manifest-digest": DIGEST},
        "type": "cosign container image signature",
    }


def test_a_signature_is_good_for_its_key_and_its_image_alone(tmp_path):
    sign, verify = write(tmp_path, new_key(), passphrase=b"open")
    private, public = signatures.private_key(sign, "open"), signatures.public_key(verify)
    text = signatures.payload(REFERENCE)
    made = signatures.sign(private, text)
    other = "sha256:" + "e" * 64
    assert signatures.fault(public, text, made, digest=DIGEST) is None
    assert signatures.fault(new_key().public_key(), text, made, digest=DIGEST) == "signed by another key"
    assert signatures.fault(public, text + b" ", made, digest=DIGEST) == "signed by another key"
    assert signatures.fault(public, text, "no base64", digest=DIGEST) == "signed by another key"
    assert signatures.fault(public, text, made, digest=other) == f"signed for {DIGEST[:19]}"


@pytest.mark.parametrize("text", [b"[]", b"{}", b"no JSON", b'{"critical": {"image": {"docker-manifest-digest": "x"}}}'])
def test_a_signed_text_that_names_no_image_is_no_signature_of_one(text):
    key = new_key()
    assert signatures.fault(key.public_key(), text, signatures.sign(key, text), digest=DIGEST) == "what is signed names no image"


def test_keys_that_cannot_be_used_are_refused_in_one_line(tmp_path):
    sign, verify = write(tmp_path, new_key(), passphrase=b"open")
    with pytest.raises(BadInput, match=r"sign.pem' cannot be used .*: make one with `openssl"):
        signatures.private_key(sign, "wrong")
    with pytest.raises(BadInput, match=r"promote.verify_key '.*absent.pem' is no public key in PEM \(No such file or directory\)"):
        signatures.public_key(tmp_path / "absent.pem")
    with pytest.raises(BadInput, match="is no public key in PEM"):
        signatures.public_key(sign)
    sign, verify = write(tmp_path, rsa.generate_private_key(65537, 2048))
    with pytest.raises(BadInput, match="which ECDSA needs"):
        signatures.private_key(sign)
    with pytest.raises(BadInput, match="which ECDSA needs"):
        signatures.public_key(verify)
