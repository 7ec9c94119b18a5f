#include "runtime/tokenizer/gguf_tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/gguf_words.hpp"
#include "runtime/tokenizer/tokenizer_json.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <limits>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using troupe::tests::scratch_folder;

namespace {

/// Metadata of a byte-level BPE: the bytes, some merged tokens, an end.
json byte_level(const std::string& pre) {
  auto tokens = json::array(), types = json::array();
  const auto add = [&](const std::string& text, int type) {
    tokens.push_back(text);
    types.push_back(type);
  };
  const auto utf8 = [](int code) {
    std::string out;
    if (code < 0x80)
      return std::string(1, char(code));
    out += char(0xc0 | code >> 6);
    out += char(0x80 | (code & 63));
    return out;
  };
  for (int x = 0x21; x <= 0x7e; ++x)
    add(utf8(x), 1);
  for (int x = 0xa1; x <= 0xff; ++x)
    if (x != 0xad)
      add(utf8(x), 1);
  for (int x = 0x100; x <= 0x143; ++x)
    add(utf8(x), 1);
  for (const auto* x : {"ab", "\u0120ab", "12"})
    add(x, 1);
  add("<|end|>", 3);
  add("<tag>", 4);
  return {{"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.pre", pre},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", {"a b", "\u0120 ab", "1 2"}},
          {"tokenizer.ggml.bos_token_id", 259U},
          {"tokenizer.ggml.eos_token_id", 259U},
          {"tokenizer.chat_template", "{{ messages }}"}};
}

/// Metadata of a SentencePiece BPE that falls back to bytes.
json pieces() {
  auto tokens = json::array({"<unk>", "<s>", "</s>"}), types = json::array({2, 3, 3});
  auto scores = json::array({0.0, 0.0, 0.0});
  for (int x = 0; x < 256; ++x) {
    tokens.push_back(fmt::format("<0x{:02X}>", x));
    types.push_back(6);
    scores.push_back(0.0);
  }
  float score = 0;
  for (const auto* x : {"ab", "\u2581ab", "abab", "\u2581", "a", "b", "c"}) {
    tokens.push_back(x);
    types.push_back(1);
    scores.push_back(--score);
  }
  return {{"tokenizer.ggml.model", "llama"},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.scores", scores},
          {"tokenizer.ggml.bos_token_id", 1U},
          {"tokenizer.ggml.eos_token_id", 2U}};
}

std::unique_ptr<const tokenizer> made(const json& metadata, const scratch_folder& folder) {
  const auto texts = tokenizer_of_gguf(metadata, "'x.gguf'");
  write_text(folder / "tokenizer_config.json", texts.configuration);
  write_text(folder / "tokenizer.json", texts.tokenizer);
  return make_tokenizer(tokenizer_in(folder.path()));
}

std::string refusal(const json& metadata) {
  try {
    tokenizer_of_gguf(metadata, "'x.gguf'");
    return "";
  } catch (const input_error& failure) {
    return failure.what();
  }
}

/// Metadata of the tokenizer that a file gives.
json written_again(const json& metadata, const scratch_folder& folder, std::int64_t vocabulary) {
  const auto text = made(metadata, folder);
  gguf_tokenizer_source from;
  from.tokenizer = json_value(read_text(folder / "tokenizer.json"));
  from.configuration = json_value(read_text(folder / "tokenizer_config.json"));
  from.frame = text->frame();
  from.end_of_document = text->end_of_document();
  from.vocabulary = vocabulary;
  from.where = "'x'";
  return gguf_of_tokenizer(from);
}

}  // namespace

TEST_CASE("byte-level tokens of a GGUF file become words, merges and special tokens", "[gguf]") {
  const scratch_folder folder;
  const auto text = made(byte_level("gpt-2"), folder);
  CHECK(text->vocabulary_size() == 261);
  CHECK(text->end_of_document() == 259);
  CHECK(text->encode("ab ab") == std::vector<std::int32_t>{256, 257});
  CHECK(text->encode("<tag>12") == std::vector<std::int32_t>{260, 258});
  CHECK(text->encode("<|end|>", special_tokens::recognised) == std::vector<std::int32_t>{259});
  CHECK(text->frame().before.empty());
  CHECK(text->decode(text->encode("ab \u00e9\n")) == "ab \u00e9\n");
}

TEST_CASE("the name of a file's rules decides its words", "[gguf]") {
  const scratch_folder folder;
  // Only Llama 3's expression makes one word of two digits; its files begin a text with a token.
  CHECK(made(byte_level("llama-bpe"), folder)->encode("12").size() == 1);
  CHECK(made(byte_level("llama-bpe"), folder)->frame().before == std::vector<std::int32_t>{259});
  CHECK(made(byte_level("qwen2"), folder)->encode("12").size() == 2);
  CHECK(made(byte_level("smollm"), folder)->encode("12").size() == 2);
  CHECK(made(byte_level("gpt-2"), folder)->encode("12").size() == 1);
}

TEST_CASE("scored pieces of a GGUF file are joined by score and fall back to bytes", "[gguf]") {
  const scratch_folder folder;
  const auto text = made(pieces(), folder);
  CHECK(text->encode("abc") == std::vector<std::int32_t>{260, 265});
  CHECK(text->encode("cabab") == std::vector<std::int32_t>{262, 265, 261});
  CHECK(text->encode("\n") == std::vector<std::int32_t>{262, 3 + 10});
  CHECK(text->frame().before == std::vector<std::int32_t>{1});
  CHECK(text->decode(text->encode("ab cab")) == "ab cab");
}

TEST_CASE("a tokenizer that is read from GGUF is written equal", "[gguf]") {
  for (const auto* pre : {"gpt-2", "llama-bpe", "qwen2", "olmo", "smollm"}) {
    const scratch_folder folder;
    INFO(pre);
    const auto from = byte_level(pre);
    const auto to = written_again(from, folder, 263);
    for (const auto* key : {"model", "pre", "merges", "eos_token_id", "bos_token_id"})
      CHECK(to.at(std::string("tokenizer.ggml.") + key)
            == from.at(std::string("tokenizer.ggml.") + key));
    CHECK(to.at("tokenizer.chat_template") == from.at("tokenizer.chat_template"));
    auto tokens = from.at("tokenizer.ggml.tokens"), types = from.at("tokenizer.ggml.token_type");
    for (const auto* filled : {"[PAD261]", "[PAD262]"}) {
      tokens.push_back(filled);
      types.push_back(5);
    }
    CHECK(to.at("tokenizer.ggml.tokens") == tokens);
    CHECK(to.at("tokenizer.ggml.token_type") == types);
  }
  const scratch_folder folder;
  const auto first = written_again(pieces(), folder, 266);
  CHECK(first.at("tokenizer.ggml.tokens") == pieces().at("tokenizer.ggml.tokens"));
  CHECK(first.at("tokenizer.ggml.token_type") == pieces().at("tokenizer.ggml.token_type"));
  CHECK(first.at("tokenizer.ggml.add_bos_token") == true);
  // Scores may differ, but not what they mean.
  const scratch_folder other;
  CHECK(written_again(first, other, 266) == first);
  CHECK(made(first, other)->fingerprint() == made(pieces(), folder)->fingerprint());
}

TEST_CASE("tokenizers of GGUF files that are not supported or damaged are refused", "[gguf]") {
  CHECK(refusal({}).empty());
  CHECK(refusal({{"tokenizer.ggml.model", "none"}}).empty());
  CHECK_THAT(refusal({{"tokenizer.ggml.model", "rwkv"}}),
             ContainsSubstring("\"rwkv\", which is not supported (gpt2 and llama are)"));
  CHECK_THAT(refusal(byte_level("tekken")),
             ContainsSubstring("'x.gguf': metadata \"tokenizer.ggml.pre\" is \"tekken\"")
                 && ContainsSubstring("use the tokenizer.json of the original model"));
  const auto changed = [](json from, const char* key, json value) {
    from[key] = std::move(value);
    return refusal(from);
  };
  CHECK_THAT(changed(byte_level("gpt-2"), "tokenizer.ggml.token_type", {1, 2}),
             ContainsSubstring("has 2 elements, but there are 261 tokens"));
  CHECK_THAT(changed(byte_level("gpt-2"), "tokenizer.ggml.tokens", {"a", "a"}),
             ContainsSubstring("has \"a\" twice"));
  CHECK_THAT(changed(byte_level("gpt-2"), "tokenizer.ggml.tokens", {1, 2}),
             ContainsSubstring("elements of another type"));
  CHECK_THAT(changed(byte_level("gpt-2"), "tokenizer.ggml.eos_token_id", 261U),
             ContainsSubstring("should be a token from 0 to 260, but is 261"));
  CHECK_THAT(changed(pieces(), "tokenizer.ggml.scores", json::array()),
             ContainsSubstring("has 0 elements"));
  auto scores = pieces()["tokenizer.ggml.scores"];
  scores[260] = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(changed(pieces(), "tokenizer.ggml.scores", scores),
             ContainsSubstring("a score that is not a finite number"));
  CHECK_THAT(changed(pieces(), "tokenizer.ggml.remove_extra_whitespaces", true),
             ContainsSubstring("is true, which is not supported"));
}

TEST_CASE("the default one of several chat templates is written to GGUF", "[gguf]") {
  const scratch_folder folder;
  made(byte_level("gpt-2"), folder);
  gguf_tokenizer_source from;
  from.tokenizer = json_value(read_text(folder / "tokenizer.json"));
  from.vocabulary = 261;
  from.configuration["chat_template"]
      = {{{"name", "tool_use"}, {"template", "a"}}, {{"name", "default"}, {"template", "b"}}};
  CHECK(gguf_of_tokenizer(from).at("tokenizer.chat_template") == "b");
  from.chat_template = "c";
  CHECK(gguf_of_tokenizer(from).at("tokenizer.chat_template") == "c");
}

TEST_CASE("a tokenizer.json that GGUF cannot express is refused", "[gguf]") {
  const scratch_folder folder;
  made(byte_level("gpt-2"), folder);
  gguf_tokenizer_source from;
  from.tokenizer = json_value(read_text(folder / "tokenizer.json"));
  from.configuration = json::object();
  from.vocabulary = 261;
  from.where = "'x'";
  CHECK_NOTHROW(gguf_of_tokenizer(from));
  from.vocabulary = 260;
  CHECK_THROWS_WITH(gguf_of_tokenizer(from), ContainsSubstring("the model has 260 tokens"));
  from.vocabulary = 261;
  from.tokenizer["normalizer"] = {{"type", "Lowercase"}};
  CHECK_THROWS_WITH(gguf_of_tokenizer(from),
                    ContainsSubstring("cannot write the tokenizer of 'x' into a GGUF file: GGUF "
                                      "has a name for its rules of words only if"));
  from.tokenizer["model"]["type"] = "Unigram";
  CHECK_THROWS_WITH(gguf_of_tokenizer(from), ContainsSubstring("only BPE is written"));
}
