import pytest

from paddleship.config import loading
from paddleship.errors import PaddleshipError, ParamsError

SECRET = "hunter2-and-more"  # noqa: S105 not a password of anything


def parsed(base_params, **kwargs):
    return loading.parse(loading.merge(base_params, {"model": {"kwargs": kwargs}}), origin="mine.yaml")


@pytest.mark.parametrize(
    "given",
    [
        {"password": SECRET},
        {"password": 1234},
        {"db_password": SECRET},
        {"dbPassword": SECRET},
        {"DB_PASSWORD": SECRET},
        {"token": SECRET},
        {"hf_token": SECRET},
        {"apiToken": SECRET},
        {"client_secret": SECRET},
        {"api_key": SECRET},
        {"secret_access_key": SECRET},
        {"aws_access_key_id": SECRET},
        {"deeper": {"list": [{"passphrase": SECRET}]}},
        {"source": f"postgresql://ada:{SECRET}@host/rows"},
        {"sources": [f"https://:{SECRET}@host/rows.csv"]},
        {"source": f"https://ghp_{SECRET}@host/rows.git"},
        {"pem": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}"},
    ],
    ids=str,
)
def test_a_credential_in_the_params_is_refused_without_its_value_and_says_where_it_belongs(base_params, given):
    with pytest.raises(ParamsError, match=r"^mine.yaml: model.kwargs.* looks like a credential, .* environment variable") as refused:
        parsed(base_params, **given)
    assert SECRET not in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "given",
    [
        {"max_tokens": 512, "token_dim": 64, "tokenizer": "characters", "tokens": ["a", "b"], "token_type": "word"},
        {"pad_token": "[PAD]", "unk_token": "<unk>", "eos_token": "</s>", "cls_token": "[CLS]", "mask_token": "[MASK]"},
        {"token": 3, "use_token": True, "token_id": 7, "id": 5},
        {"key": "label", "sort_key": "x", "key_dim": 64, "key_columns": ["a"], "keyboard": "us"},
        {"password_column": "word", "password_length": 12, "secretary": "yes", "passage": "text", "secret": None, "password": ""},
        {"password": "${DB_PASSWORD}", "token_file": "/run/secrets/token", "token_env": "HF_TOKEN"},
        {"source": "https://host:8080/rows?at=a@b", "mail": "ada@host", "ssh": "git@host:rows", "time": "12:30@noon"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_only_sounds_like_a_credential_is_a_param_like_any_other(base_params, given):
    assert parsed(base_params, **given).model.kwargs == given


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("MLflow at http://ada:pa:ss@w@host:5000/x?a=1 is gone", "MLflow at http://host:5000/x?a=1 is gone"),
        ("ssh://ada@host/rows and s3://bucket/a@b", "ssh://host/rows and s3://bucket/a@b"),
        ("ask ada@host, or see http://host/@ada", "ask ada@host, or see http://host/@ada"),
    ],
)
def test_an_error_shows_an_address_without_user_and_password(words, told):
    assert str(PaddleshipError(words)) == told
