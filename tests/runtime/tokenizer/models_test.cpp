// Tokenizers of all kinds of models, compared with their original libraries:
// tests/golden/tokenizer/make_models.py.

#include "runtime/core/base64.hpp"
#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/description.hpp"
#include "runtime/tokenizer/tiktoken.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "tests/support/hub_tokenizer.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::hub_tokenizer;
using troupe::tests::scratch_folder;
using json = nlohmann::json;
using ids = std::vector<std::int32_t>;

namespace {

const json& all() {
  static const auto loaded = json::parse(
      read_text(troupe::tests::source_dir() + "/tests/golden/tokenizer/tokenizer_models.json"));
  return loaded;
}

std::vector<std::string> texts() {
  return all().at("texts").get<std::vector<std::string>>();
}

std::unique_ptr<const tokenizer> hub(const std::string& kind) {
  const auto& one = all().at("kinds").at(kind);
  return hub_tokenizer(one.at("file"), one.at("end"));
}

ids framed(const tokenizer& by, const std::string& text) {
  const auto frame = by.frame();
  auto out = frame.before;
  by.append(text, out, special_tokens::recognised);
  out.insert(out.end(), frame.after.begin(), frame.after.end());
  return out;
}

std::string readable(const tokenizer& by, ids from) {
  std::erase_if(from, [&](auto id) { return by.is_special(id); });
  return by.decode(from);
}

/// Replaces invalid UTF-8 as the libraries do.
std::string as_utf8(const std::string& text) {
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string joined_pieces(const tokenizer& by, const ids& from) {
  std::string out;
  for (std::size_t i = 0; i < from.size(); ++i)
    out += by.piece(from[i], i == 0 ? std::nullopt : std::optional(from[i - 1]));
  return out;
}

std::string without_front_blanks(const std::string& text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

std::string refusal(const tokenizer_choice& choice) {
  try {
    make_tokenizer(choice);
  } catch (const input_error& failure) {
    return failure.what();
  }
  return "none";
}

std::string lines_of(const json& tokens) {
  std::string out;
  for (std::size_t rank = 0; rank < tokens.size(); ++rank)
    out += fmt::format("{} {}\n", tokens[rank].get<std::string>(), rank);
  return out;
}

json list_of(const json& tokens) {
  json out = json::array();
  for (std::size_t rank = 0; rank < tokens.size(); ++rank)
    out.push_back({{"rank", rank}, {"token_bytes", tokens[rank]}, {"token_str", nullptr}});
  return out;
}

}  // namespace

TEST_CASE("models of all kinds give Hugging Face's ids and texts", "[tokenizer][golden]") {
  REQUIRE(all().at("kinds").size() == 12);
  for (const auto& [kind, one] : all().at("kinds").items()) {
    const auto by = hub(kind);
    REQUIRE(one.at("cases").size() == texts().size());
    for (std::size_t i = 0; i < texts().size(); ++i) {
      INFO(kind << ": " << json(texts()[i]));
      const auto& expected = one.at("cases")[i];
      const auto found = framed(*by, texts()[i]);
      CHECK(found == expected[0].get<ids>());
      CHECK(by->encode(texts()[i]) == expected[1].get<ids>());
      CHECK(as_utf8(by->decode(found)) == as_utf8(expected[2]));
      CHECK(as_utf8(readable(*by, found)) == as_utf8(expected[3]));
      CHECK(joined_pieces(*by, found) == by->decode(found));
      for (const auto id : found)
        CHECK(by->piece(id, id) == by->piece(id, found.front()));
    }
    CHECK(by->has_own_pieces());
  }
  auto one = all().at("kinds").at("clip");
  one["file"]["decoder"] = {{"type", "BPEDecoder"}, {"suffix", "</w>"}};
  CHECK_FALSE(hub_tokenizer(one.at("file"), one.at("end"))->has_own_pieces());
}

TEST_CASE("SentencePiece models give its library's ids and texts", "[tokenizer][golden]") {
  for (const auto& [kind, one] : all().at("sentencepiece").items()) {
    const scratch_folder folder;
    write_text(folder / "tokenizer.model", from_base64(one.at("model").get<std::string>()));
    const auto choice = tokenizer_in(folder.path());
    CHECK(choice.type == "SentencePieceTokenizer");
    const auto by = make_tokenizer(choice);
    for (std::size_t i = 0; i < texts().size(); ++i) {
      INFO(kind << ": " << json(texts()[i]));
      const auto found = by->encode(texts()[i]);
      CHECK(found == one.at("cases")[i][0].get<ids>());
      CHECK(as_utf8(by->decode(found)) == as_utf8(one.at("cases")[i][1]));
      // The library removes all blanks before the text.
      CHECK(without_front_blanks(joined_pieces(*by, found))
            == without_front_blanks(by->decode(found)));
    }
    CHECK(by->end_of_document() == 2);
    CHECK(by->is_special(1));
    CHECK(by->frame().before.empty());
    const auto special = by->encode("<s>the</s>", special_tokens::recognised);
    CHECK(special.front() == 1);
    CHECK(special.back() == 2);
    CHECK(by->decode(special) == by->decode(by->encode("the")));
    CHECK(make_tokenizer({.type = "Llama2Tokenizer", .model = choice.model})->kind()
          == "Llama2Tokenizer");
    CHECK_NOTHROW(by->encode("the\xC3 stage\xFF"));
    CHECK_THROWS_WITH(by->decode(ids{by->vocabulary_size()}), ContainsSubstring("ends at"));
    write_text(choice.model, "no model");
    CHECK_THAT(refusal({.type = "SentencePieceTokenizer", .model = choice.model}),
               ContainsSubstring("as a model of SentencePiece") && !ContainsSubstring(".cc"));
  }
}

TEST_CASE("tiktoken files in both formats give its ids", "[tokenizer][golden]") {
  const auto& golden = all().at("tiktoken");
  const scratch_folder folder;
  write_text(folder / "cl100k_base.tiktoken", lines_of(golden.at("tokens")));
  const auto size = std::int32_t(golden.at("tokens").size()) + 9;
  write_text(folder / "megatron.json", list_of(golden.at("tokens")).dump());
  const tokenizer_choice lines{.type = "TikTokenizer",
                               .model = folder / "cl100k_base.tiktoken",
                               .pattern = tiktoken_pattern_of(folder / "cl100k_base.tiktoken")},
      list{.type = "TikTokenizer",
           .vocabulary_size = size,
           .model = folder / "megatron.json",
           .pattern = "v1",
           .special_tokens = 9};
  const auto by_lines = make_tokenizer(lines), by_list = make_tokenizer(list);
  for (std::size_t i = 0; i < texts().size(); ++i) {
    INFO(json(texts()[i]));
    const auto found = by_lines->encode(texts()[i], special_tokens::recognised);
    CHECK(found == golden.at("cl100k_base")[i].get<ids>());
    CHECK(by_lines->decode(found) == texts()[i]);
    CHECK(by_list->encode(texts()[i], special_tokens::recognised) == golden.at("v1")[i].get<ids>());
  }
  CHECK(by_lines->end_of_document() == 100257);
  CHECK(by_lines->vocabulary_size() == 100277);
  CHECK(by_list->end_of_document() == 2);
  CHECK(by_list->vocabulary_size() == size);
  // Stored with a run, including the pattern, which is not in the file.
  const auto description = describe(lines, *by_lines);
  keep_tokenizer(description, folder / "run");
  std::filesystem::remove(lines.model);
  CHECK(described_tokenizer(description, folder / "run")->fingerprint() == by_lines->fingerprint());
}

TEST_CASE("Llama 3.1 has other special tokens than Llama 3 with the same file", "[tokenizer]") {
  const scratch_folder folder;
  write_text(folder / "tokenizer.model", lines_of(all().at("tiktoken").at("tokens")));
  const auto with = [&](const char* pattern) {
    return make_tokenizer(
        {.type = "TikTokenizer", .model = folder / "tokenizer.model", .pattern = pattern});
  };
  const auto first = with("llama3"), later = with("llama3.1");
  const auto encoded = [](const tokenizer& by, const char* text) {
    return by.encode(text, special_tokens::recognised);
  };
  CHECK(encoded(*later, "<|finetune_right_pad_id|><|eom_id|><|eot_id|><|python_tag|>")
        == ids{128004, 128008, 128009, 128010});
  CHECK(encoded(*later, "<|reserved_special_token_2|>") == ids{128012});
  CHECK(encoded(*later, "<|reserved_special_token_245|>") == ids{128255});
  CHECK(encoded(*first, "<|eom_id|>").size() > 1);
  CHECK(encoded(*first, "<|eot_id|><|reserved_special_token_250|>") == ids{128009, 128255});
  for (const auto* by : {first.get(), later.get()}) {
    CHECK(by->vocabulary_size() == 128256);
    CHECK(by->end_of_document() == 128001);
  }
}

TEST_CASE("a tiktoken.model gives the ids of Moonlight's and Kimi's tokenizer",
          "[tokenizer][golden]") {
  const auto golden
      = json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/tokenizer/kimi.json"));
  const auto first = std::int32_t(golden.at("tokens").size());
  const scratch_folder folder;
  json config{{"tokenizer_class", "TikTokenTokenizer"}, {"eos_token", "<|im_end|>"}};
  for (const auto& [id, name] : golden.at("named").items())
    config["added_tokens_decoder"][id] = {{"content", name}, {"special", true}};
  const auto configure = [&] { write_text(folder / "tokenizer_config.json", config.dump()); };
  write_text(folder / "tiktoken.model", lines_of(golden.at("tokens")));
  configure();
  const auto choice = tokenizer_in(folder.path());
  CHECK(choice.pattern == "kimi");
  const auto by = make_tokenizer(choice);
  for (std::size_t i = 0; i < golden.at("texts").size(); ++i) {
    const auto text = golden.at("texts")[i].get<std::string>();
    INFO(json(text));
    const auto found = by->encode(text, special_tokens::recognised);
    CHECK(found == golden.at("cases")[i][0].get<ids>());
    CHECK(by->encode(text) == golden.at("cases")[i][1].get<ids>());
    CHECK(by->decode(found) == text);
  }
  CHECK(by->vocabulary_size() == first + 256);
  CHECK(by->end_of_document() == first + 2);
  CHECK(by->is_special(first + 100));
  const auto description = describe(choice, *by);
  keep_tokenizer(description, folder / "run");
  CHECK(described_tokenizer(description, folder / "run")->fingerprint() == by->fingerprint());
  CHECK(tokenizer_in(folder / "run" / "tokenizer").pattern == "kimi");

  config["added_tokens_decoder"][std::to_string(first - 1)] = {{"content", "[X]"}};
  configure();
  CHECK_THAT(refusal(choice), ContainsSubstring(fmt::format("it has the id {}", first - 1)));
  config.erase("added_tokens_decoder");
  configure();
  CHECK_THAT(refusal(choice), ContainsSubstring("\"added_tokens_decoder\" is missing"));
  write_text(folder / "tiktoken.model", lines_of(golden.at("tokens")) + "AAAA 5000\n");
  CHECK_THAT(refusal(choice), ContainsSubstring("special tokens follow the last rank"));
  config["tokenizer_class"] = "OtherTokenizer";
  configure();
  CHECK_THROWS_WITH(tokenizer_in(folder.path()), ContainsSubstring("'OtherTokenizer'"));
}

TEST_CASE("an invalid tiktoken file is refused with the reason", "[tokenizer]") {
  const scratch_folder folder;
  const auto file = folder / "x.tiktoken";
  const auto with = [&](const std::string& content, const std::string& pattern) {
    write_text(file, content);
    return refusal({.type = "TikTokenizer",
                    .vocabulary_size = 300,
                    .model = file,
                    .pattern = pattern,
                    .special_tokens = 9});
  };
  const auto good = lines_of(all().at("tiktoken").at("tokens"));
  auto list = list_of(all().at("tiktoken").at("tokens"));
  CHECK(with(good, "cl100k_base") == "none");
  CHECK(with(list.dump(), "v2") == "none");
  CHECK_THAT(with(good, ""), ContainsSubstring("no pattern is given to split a text"));
  CHECK_THAT(with(good, "v1"), ContainsSubstring("the pattern 'v1' is for the other form"));
  CHECK_THAT(with(list.dump(), "llama3"), ContainsSubstring("for which the pattern is v1 or v2"));
  CHECK_THAT(with("YQ== 0\nYQ==\n", "cl100k_base"), ContainsSubstring("line 2 is not a token"));
  CHECK_THAT(with("YQ== 0\nYg== 0\n", "cl100k_base"), ContainsSubstring("rank 0 occurs twice"));
  CHECK_THAT(with("Y 0\n", "cl100k_base"), ContainsSubstring("'Y' is not valid base64"));
  CHECK_THAT(with("YQ== 0\n", "cl100k_base"), ContainsSubstring("no token for byte 0x00"));
  CHECK_THAT(with(good + "YQ== 500\n", "cl100k_base"), ContainsSubstring("occurs twice"));
  CHECK_THAT(with(good + "YQ== 100256\n", "cl100k_base"),
             ContainsSubstring("a rank below 100256 (cl100k_base)"));
  CHECK_THAT(with("[1,", "v2"), ContainsSubstring("not JSON"));
  CHECK_THAT(with("[]", "v2"), ContainsSubstring("has 0 tokens, but 291 are needed"));
  CHECK_THAT(
      with("[{\"rank\": " + std::string(100000, '[') + std::string(100000, ']') + "}]", "v2"),
      ContainsSubstring("its brackets are more than 64 deep"));
  CHECK_THAT(with("A=A= 0\n", "cl100k_base"), ContainsSubstring("'A=A=' is not valid base64"));
  CHECK_THAT(with(std::string(4000, 'A') + " 300\n", "cl100k_base"),
             ContainsSubstring("has 3000 bytes, more than 1024"));
  list[3]["rank"] = 7;
  CHECK_THAT(with(list.dump(), "v2"), ContainsSubstring("it is not 3: ranks ascend by one"));
}

TEST_CASE("BERT's vocab.txt gives the same ids as its tokenizer.json", "[tokenizer]") {
  for (const auto* kind : {"bert", "bert cased"}) {
    const auto& file = all().at("kinds").at(kind).at("file");
    std::vector<std::string> tokens(file.at("model").at("vocab").size());
    for (const auto& [token, id] : file.at("model").at("vocab").items())
      tokens[id.get<std::size_t>()] = token;
    const scratch_folder folder;
    write_text(folder / "vocab.txt", fmt::format("{}\n", fmt::join(tokens, "\n")));
    const bool cased = kind == std::string_view("bert cased");
    write_text(folder / "tokenizer_config.json", json{{"do_lower_case", !cased}}.dump());
    const auto choice = tokenizer_in(folder.path());
    CHECK(choice.type == (cased ? "BertWordPieceCase" : "BertWordPieceLowerCase"));
    const auto by = make_tokenizer(choice), other = hub(kind);
    for (const auto& text : texts()) {
      INFO(kind << ": " << json(text));
      CHECK(framed(*by, text) == framed(*other, text));
      CHECK(by->encode(text) == other->encode(text));
      CHECK(readable(*by, by->encode(text)) == readable(*other, other->encode(text)));
    }
    CHECK(by->end_of_document() == 3);
    CHECK(by->decode(by->encode("the\xC3 stage")) == by->decode(by->encode("the\uFFFD stage")));
    const auto description = describe(choice, *by);
    keep_tokenizer(description, folder / "run");
    CHECK(described_tokenizer(description, folder / "run")->fingerprint() == by->fingerprint());
    tokens[1] = "[WHO]";
    write_text(folder / "vocab.txt", fmt::format("{}\n", fmt::join(tokens, "\n")));
    CHECK_THAT(refusal(choice), ContainsSubstring("no line is [UNK]"));
  }
}

TEST_CASE("the other files of a folder decide which tokenizer it is, if any", "[tokenizer]") {
  const auto with = [](const char* main, const char* name, const char* text) -> std::string {
    const scratch_folder folder;
    write_text(folder / main, "x\n");
    write_text(folder / name, text);
    try {
      return tokenizer_in(folder.path()).type;
    } catch (const input_error& failure) {
      return failure.what();
    }
  };
  CHECK(with("vocab.txt", "config.json", "{}") == "BertWordPieceLowerCase");
  CHECK_THAT(with("vocab.txt", "tokenizer_config.json", R"({"tokenizer_class": "EsmTokenizer"})"),
             ContainsSubstring("'EsmTokenizer', not of BERT"));
  CHECK_THAT(with("vocab.txt", "tokenizer_config.json", R"({"strip_accents": false})"),
             ContainsSubstring("sets \"strip_accents\""));
  CHECK_THAT(with("tokenizer.model", "added_tokens.json", "{}"),
             ContainsSubstring("tokens that its tokenizer.model does not"));
  const scratch_folder folder;
  write_text(folder / "tokenizer.model", "IQ== 0\nIg== 1\n");
  CHECK(tokenizer_in(folder.path()).type == "TikTokenizer");
  CHECK(tokenizer_in(folder.path()).pattern == "llama3");
  write_text(folder / "params.json", R"({"use_scaled_rope": true})");
  CHECK(tokenizer_in(folder.path()).pattern == "llama3.1");
  std::filesystem::remove(folder / "params.json");
  write_text(folder / "config.json", R"({"rope_scaling": {"rope_type": "llama3"}})");
  CHECK(tokenizer_in(folder.path()).pattern == "llama3.1");
}

TEST_CASE("characters that a model does not know are unknown, left out or refused", "[tokenizer]") {
  auto file = all().at("kinds").at("unigram").at("file");
  file["model"]["unk_id"] = nullptr;
  CHECK_THROWS_WITH(hub_tokenizer(file, "</s>")->encode("\u4e2d"),
                    ContainsSubstring("no piece has it"));
  file = all().at("kinds").at("whole words").at("file");
  file["model"]["unk_token"] = "gone";
  CHECK_THROWS_WITH(hub_tokenizer(file, "</s>"), ContainsSubstring("no token \"gone\""));
  file["model"].erase("unk_token");
  CHECK_THROWS_WITH(hub_tokenizer(file, "</s>")->encode("never"),
                    ContainsSubstring("does not have it"));
  file = all().at("kinds").at("llama2").at("file");
  file["model"]["unk_token"] = nullptr;
  file["model"]["byte_fallback"] = false;
  const auto by = hub_tokenizer(file, "</s>");
  CHECK(by->encode("t\u4e2dh") == by->encode("th"));
}

TEST_CASE("files with a surprising meaning in the library are refused", "[tokenizer]") {
  auto file = all().at("kinds").at("llama2 new").at("file");
  file["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}};
  CHECK_THROWS_WITH(hub_tokenizer(file, "</s>"), ContainsSubstring("remove the start of a text"));
  file = all().at("kinds").at("bert").at("file");
  const auto frame = file.at("post_processor");
  file["post_processor"] = {{"type", "Sequence"}, {"processors", {frame, frame}}};
  CHECK_THROWS_WITH(hub_tokenizer(file, "[SEP]"),
                    ContainsSubstring("the second processor that adds tokens"));
  file["post_processor"] = nullptr;
  const auto size = file.at("model").at("vocab").size();
  const auto add = [&](std::size_t more, const std::string& content) {
    file["added_tokens"].push_back(
        {{"id", size + more}, {"content", content}, {"normalized", true}});
  };
  add(0, "New One");
  const auto by = hub_tokenizer(file, "[SEP]");
  CHECK(by->encode("a new one") == by->encode("a New One"));
  CHECK(by->decode(ids{std::int32_t(size)}) == "new one");
  add(1, "new one");
  CHECK_THROWS_WITH(hub_tokenizer(file, "[SEP]"),
                    ContainsSubstring("are equal after normalization"));
  file["added_tokens"].back()["content"] = "\x01";
  CHECK_THROWS_WITH(hub_tokenizer(file, "[SEP]"),
                    ContainsSubstring("is empty after normalization"));
  file["added_tokens"].back()["content"] = std::string(5000, 'a');
  CHECK_THROWS_WITH(hub_tokenizer(file, "[SEP]"), ContainsSubstring("more than 4096 bytes"));
}

TEST_CASE("pieces that are compared at each place of a text have a limited length", "[tokenizer]") {
  const std::string piece(2000, 'a');
  auto file = all().at("kinds").at("bert").at("file");
  file["model"]["vocab"][piece] = file["model"]["vocab"].size();
  CHECK_THROWS_WITH(hub_tokenizer(file, "[SEP]"), ContainsSubstring("has 2000 bytes, more than"));
  file = all().at("kinds").at("unigram").at("file");
  file["model"]["vocab"].push_back(json::array({piece, -1.0}));
  CHECK_THROWS_WITH(hub_tokenizer(file, "</s>"), ContainsSubstring("has 2000 bytes, more than"));
}

TEST_CASE("an added token decodes to its own characters in a byte-level model", "[tokenizer]") {
  for (const bool by_normalizer : {false, true}) {
    const auto& kind = all().at("kinds").at(by_normalizer ? "bytes first" : "falcon");
    json file = kind.at("file");
    const auto size = file.at("model").at("vocab").size();
    const auto add = [&](std::size_t more, const std::string& content, bool normalized) {
      file["added_tokens"].push_back(
          {{"id", size + more}, {"content", content}, {"normalized", normalized}});
    };
    add(0, "café", false);
    add(1, "two words", true);
    const auto by = hub_tokenizer(file, kind.at("end"));
    for (const std::string text : {"café", "two words", "a café of two words"})
      CHECK(by->decode(by->encode(text)) == text);
  }
}

TEST_CASE("the fingerprint covers what decides ids, without decoder and post-processor",
          "[tokenizer]") {
  const auto with = [](const std::string& kind, const char* at, const json& value) {
    auto file = all().at("kinds").at(kind).at("file");
    if (at)
      file[json::json_pointer(at)] = value;
    return hub_tokenizer(file, all().at("kinds").at(kind).at("end"))->fingerprint();
  };
  const auto changes = [&](const std::string& kind, const char* at, const json& value) {
    return !(with(kind, nullptr, {}) == with(kind, at, value));
  };
  CHECK(changes("llama2", "/model/fuse_unk", false));
  CHECK(changes("llama2", "/model/byte_fallback", false));
  CHECK(changes("llama2", "/normalizer", nullptr));
  CHECK(changes("llama2 new", "/pre_tokenizer/prepend_scheme", "always"));
  CHECK(changes("unigram", "/model/vocab/7/1", -3.5));
  CHECK(changes("bert", "/normalizer/lowercase", false));
  CHECK(changes("bert", "/normalizer/clean_text", false));
  CHECK(changes("bert", "/model/max_input_chars_per_word", 7));
  CHECK(changes("clip", "/model/end_of_word_suffix", ""));
  CHECK_FALSE(changes("bert", "/decoder/cleanup", false));
  CHECK_FALSE(changes("bert", "/post_processor", nullptr));
}
