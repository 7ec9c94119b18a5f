// tokenizer.json, compared with Hugging Face's tokenizers: tests/golden/tokenizer/make_json.py.

#include "runtime/tokenizer/pipeline_tokenizer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/description.hpp"
#include "runtime/tokenizer/tokenizer_json.hpp"
#include "tests/support/hub_tokenizer.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <functional>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::hub_tokenizer;
using troupe::tests::scratch_folder;
using troupe::tests::write_hub_tokenizer;
using json = nlohmann::json;
using ids = std::vector<std::int32_t>;

namespace {

const json& golden() {
  static const auto loaded = json::parse(
      read_text(troupe::tests::source_dir() + "/tests/golden/tokenizer/tokenizer_json.json"));
  return loaded;
}

/// The complete file of a kind.
json file_of(const std::string& kind) {
  json out = golden().at("kinds").at(kind).at("file");
  json vocab;
  for (std::size_t id = 0; id < golden().at("tokens").size(); ++id)
    vocab[golden().at("tokens")[id].get<std::string>()] = id;
  out["model"]["vocab"] = vocab;
  out["model"]["merges"] = golden().at("merges");
  return out;
}

/// The error for a folder that `prepare` filled.
std::string refusal(const std::function<void(const std::filesystem::path&)>& prepare) {
  const scratch_folder folder;
  prepare(folder.path());
  try {
    make_tokenizer(tokenizer_in(folder.path()));
  } catch (const input_error& failure) {
    return failure.what();
  }
  return "none";
}

/// The error for GPT-2's file with one change.
std::string refusal_with(const char* pointer, const json& value) {
  return refusal([&](const auto& folder) {
    auto file = file_of("gpt2");
    file[json::json_pointer(pointer)] = value;
    write_hub_tokenizer(folder, file);
  });
}

}  // namespace

TEST_CASE("texts are encoded to Hugging Face's ids, with and without special tokens",
          "[tokenizer][golden]") {
  REQUIRE(golden().at("kinds").size() == 10);
  for (const auto& [kind, parts] : golden().at("kinds").items()) {
    const auto t = hub_tokenizer(file_of(kind));
    const auto& texts = golden().at("texts");
    REQUIRE(texts.size() == parts.at("ids").size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      INFO(kind << ": " << texts[i]);
      const auto& theirs = parts.at("ids")[i];
      const auto text = texts[i].get<std::string>();
      const auto found = t->encode(text, special_tokens::recognised);
      CHECK(found == theirs.front().get<ids>());
      CHECK(t->encode(text) == theirs.back().get<ids>());
      const bool keeps_texts = kind == "gpt2" || kind == "llama3" || kind == "o200k";
      if (keeps_texts)
        CHECK(t->decode(found) == text);
    }
  }
}

TEST_CASE("a tokenizer.json that equals GPT-2's two files has their fingerprint", "[tokenizer]") {
  const auto t = hub_tokenizer(file_of("gpt2"));
  CHECK(t->kind() == "HuggingFaceTokenizer");
  const auto loaded = [] {
    const scratch_folder folder;
    write_hub_tokenizer(folder.path(), file_of("gpt2"));
    auto file = load_tokenizer_json(folder / "tokenizer.json");
    file.vocabulary.end_of_document = std::int32_t(file.vocabulary.tokens.size()) - 1;
    return file.vocabulary;
  }();
  CHECK(t->fingerprint() == bpe_tokenizer(loaded).fingerprint());
  for (const auto* other : {"roberta", "llama3", "qwen2", "deepseek", "parts"})
    CHECK_FALSE(hub_tokenizer(file_of(other))->fingerprint() == t->fingerprint());
  // Merges that are not from training are applied in another order.
  auto swapped = file_of("gpt2");
  std::reverse(swapped["model"]["merges"].begin(), swapped["model"]["merges"].end());
  const auto reversed = hub_tokenizer(swapped);
  const auto by_two_files = [&] {
    const scratch_folder folder;
    write_hub_tokenizer(folder.path(), swapped);
    auto file = load_tokenizer_json(folder / "tokenizer.json");
    file.vocabulary.end_of_document = t->end_of_document();
    return bpe_tokenizer(file.vocabulary).fingerprint();
  }();
  CHECK_FALSE(reversed->fingerprint() == by_two_files);
  // Settings that do not change ids are not in the fingerprint.
  auto file = file_of("qwen2");
  const auto before = hub_tokenizer(file)->fingerprint();
  file["truncation"] = {{"max_length", 5}};
  CHECK(hub_tokenizer(file)->fingerprint() == before);
  file["added_tokens"][0]["lstrip"] = true;
  CHECK_FALSE(hub_tokenizer(file)->fingerprint() == before);
}

TEST_CASE("the fingerprint before added tokens equals that of the tokenizer without them",
          "[tokenizer]") {
  for (const auto* kind : {"gpt2", "llama3", "qwen2"}) {
    INFO(kind);
    const auto before = hub_tokenizer(file_of(kind));
    auto file = file_of(kind);
    const auto size = before->vocabulary_size();
    file["added_tokens"].push_back(
        {{"id", size}, {"content", "<fim-prefix>"}, {"special", true}, {"normalized", false}});
    const auto after = hub_tokenizer(file);
    REQUIRE(after->vocabulary_size() == size + 1);
    CHECK_FALSE(after->fingerprint() == before->fingerprint());
    CHECK(after->fingerprint_before_adding(size) == before->fingerprint());
    CHECK_FALSE(after->fingerprint_before_adding(size + 1));    // there are no added tokens
    CHECK_FALSE(after->fingerprint_before_adding(size - 100));  // the vocabulary has these
  }
}

TEST_CASE("invalid UTF-8 is encoded byte by byte, and survives a round trip", "[tokenizer]") {
  for (const auto* kind : {"gpt2", "llama3", "o200k"}) {
    const auto t = hub_tokenizer(file_of(kind));
    const std::string text = "the\xC3 stage\xE4\xB8 \xFF<|endoftext|>\xF0\x9F";
    CHECK(t->decode(t->encode(text)) == text);
    CHECK(t->decode(t->encode(text, special_tokens::recognised)) == text);
    const auto specials = t->encode(text, special_tokens::recognised);
    CHECK(std::count(specials.begin(), specials.end(), t->end_of_document()) == 1);
  }
}

TEST_CASE("ids without a token decode to nothing, ids beyond the vocabulary are refused",
          "[tokenizer]") {
  auto file = file_of("gpt2");
  const auto end = file["added_tokens"][0]["id"].get<std::int32_t>();
  file["model"]["vocab"]["far"] = end + 7;
  file["added_tokens"][0]["id"] = end + 1;  // as many as the vocabulary has
  const auto t = hub_tokenizer(file);
  CHECK(t->vocabulary_size() == end + 8);
  CHECK(t->decode(ids{end, end + 6, end + 7}) == "far");
  CHECK_THROWS_WITH(t->decode(ids{end + 8}), ContainsSubstring("the vocabulary ends at"));
}

TEST_CASE("the folder decides which token ends a document", "[tokenizer]") {
  const auto end_with = [](const char* name, const char* text) {
    const scratch_folder folder;
    write_hub_tokenizer(folder.path(), file_of("qwen2"));
    std::filesystem::remove(folder / "tokenizer_config.json");
    if (name)
      write_text(folder / name, text);
    return make_tokenizer(tokenizer_in(folder.path()))->end_of_document();
  };
  const auto first = file_of("qwen2")["added_tokens"][0]["id"].get<std::int32_t>();
  CHECK(end_with("tokenizer_config.json", R"({"eos_token": {"content": "<|im_start|>"}})")
        == first + 1);
  CHECK(end_with("special_tokens_map.json", R"({"eos_token": "<|im_start|>"})") == first + 1);
  CHECK(end_with(nullptr, nullptr) == first);  // "<|endoftext|>" is among the added ones
  CHECK_THROWS_WITH(end_with("tokenizer_config.json", R"({"eos_token": "<none>"})"),
                    ContainsSubstring("no token \"<none>\""));
  CHECK_THROWS_WITH(end_with("tokenizer_config.json", "{"), ContainsSubstring("not JSON"));
}

TEST_CASE("a tokenizer.json that names no end of a document encodes and decodes", "[tokenizer]") {
  const scratch_folder folder;
  auto file = file_of("gpt2");
  write_text(folder / "tokenizer.json", file.dump());
  const auto whole = make_tokenizer(tokenizer_in(folder.path()));
  file["added_tokens"][0]["content"] = "<end>";
  write_text(folder / "tokenizer.json", file.dump());
  const auto choice = tokenizer_in(folder.path());
  const auto by = make_tokenizer(choice);
  CHECK(whole->names_end_of_document());
  CHECK_FALSE(by->names_end_of_document());
  const auto found = by->encode("the end<end>", special_tokens::recognised);
  CHECK(by->decode(found) == "the end<end>");
  CHECK(by->is_special(found.back()));
  CHECK_THROWS_WITH(by->end_of_document(),
                    ContainsSubstring("no file names the token that ends a document"));
  const auto description = describe(choice, *by);
  keep_tokenizer(description, folder / "run");
  CHECK(described_tokenizer(description, folder / "run")->encode("the") == by->encode("the"));
}

TEST_CASE("settings of tokenizer_config.json override those of tokenizer.json as in transformers",
          "[tokenizer]") {
  const auto made = [](const json& file, const json& config) {
    const scratch_folder folder;
    write_text(folder / "tokenizer.json", file.dump());
    write_text(folder / "tokenizer_config.json", config.dump());
    return make_tokenizer(tokenizer_in(folder.path()));
  };
  const auto encoded = [&](const json& file, const json& config, const char* text) {
    return made(file, config)->encode(text);
  };
  auto gpt2 = file_of("gpt2");
  const json none = {{"tokenizer_class", "GPT2Tokenizer"}};
  json spaced = none;
  spaced["add_prefix_space"] = true;
  CHECK(encoded(gpt2, spaced, "the") == encoded(gpt2, none, " the"));
  CHECK(encoded(gpt2, none, "the") != encoded(gpt2, none, " the"));
  spaced["tokenizer_class"] = "PreTrainedTokenizerFast";
  CHECK(encoded(gpt2, spaced, "the") == encoded(gpt2, none, "the"));

  // Beside a tokenizer.json transformers 5.24 ignores them.
  gpt2["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"!", 0}}, {"sep", {"\"", 1}}};
  for (const auto* type : {"LlamaTokenizer", "TokenizersBackend"})
    for (const bool add : {false, true}) {
      const auto t = made(gpt2,
                          {{"tokenizer_class", type},
                           {"bos_token", "<|endoftext|>"},
                           {"add_bos_token", add},
                           {"add_eos_token", add}});
      CHECK(t->frame().before == ids{0});
      CHECK(t->frame().after == ids{1});
    }

  json bert = {{"model",
                {{"type", "WordLevel"},
                 {"vocab", {{"The", 0}, {"the", 1}, {"[UNK]", 2}}},
                 {"unk_token", "[UNK]"}}},
               {"added_tokens", json::array()},
               {"normalizer",
                {{"type", "BertNormalizer"},
                 {"clean_text", true},
                 {"handle_chinese_chars", true},
                 {"strip_accents", nullptr},
                 {"lowercase", true}}},
               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}}};
  json config = {{"tokenizer_class", "BertTokenizer"}};
  CHECK(encoded(bert, config, "The") == std::vector<std::int32_t>{1});
  config["do_lower_case"] = false;
  CHECK(encoded(bert, config, "The") == std::vector<std::int32_t>{0});
  bert["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array({bert["normalizer"]})}};
  CHECK(encoded(bert, config, "The") == std::vector<std::int32_t>{0});
}

// The ids are those of transformers 5.24.
TEST_CASE("tokens that only tokenizer_config.json has are added", "[tokenizer]") {
  const auto made = [](const json& tokens) {
    const scratch_folder folder;
    write_text(folder / "tokenizer.json",
               json{{"model",
                     {{"type", "WordLevel"},
                      {"vocab", {{"the", 0}, {"a", 1}, {"[UNK]", 2}, {"<|end|>", 3}}},
                      {"unk_token", "[UNK]"}}},
                    {"added_tokens", json::array()},
                    {"pre_tokenizer", {{"type", "Whitespace"}}}}
                   .dump());
    write_text(
        folder / "tokenizer_config.json",
        json{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"added_tokens_decoder", tokens}}
            .dump());
    return make_tokenizer(tokenizer_in(folder.path()));
  };
  const auto special = [](const char* content) {
    return json{{"content", content}, {"special", true}};
  };
  const auto encoded = [&](const json& tokens, const char* text) {
    return made(tokens)->encode(text, special_tokens::recognised);
  };
  CHECK(encoded({{"4", special("<|x|>")}, {"5", special("<|y|>")}}, "the<|x|>a<|y|>")
        == std::vector<std::int32_t>{0, 4, 1, 5});
  CHECK(encoded({{"3", special("<|end|>")}}, "the<|end|>a") == std::vector<std::int32_t>{0, 3, 1});
  // transformers would give it the id 4.
  CHECK_THROWS_WITH(made({{"9", special("<|x|>")}}),
                    ContainsSubstring("tokenizer_config.json': the id of")
                        && ContainsSubstring("would give it 4"));
  for (const auto& wrong : {json{{"x", special("<|x|>")}},
                            json{{"", special("<|x|>")}},
                            json{{"99999999999", special("<|x|>")}},
                            json{{"4", "<|x|>"}}})
    CHECK_THROWS_WITH(made(wrong),
                      ContainsSubstring("\"added_tokens_decoder\" has no token under"));
}

// U+111C9 was punctuation until Unicode 10: there the library cuts this text into three words.
TEST_CASE("BERT's words have the marks of Unicode 15", "[tokenizer]") {
  const std::string text = "S\U000111c9\u1abe";
  json bert = {{"model",
                {{"type", "WordLevel"},
                 {"vocab", {{"s\u1abe", 0}, {text, 1}, {"[UNK]", 2}}},
                 {"unk_token", "[UNK]"}}},
               {"added_tokens", json::array()},
               {"normalizer",
                {{"type", "BertNormalizer"},
                 {"clean_text", true},
                 {"handle_chinese_chars", true},
                 {"strip_accents", nullptr},
                 {"lowercase", true}}},
               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}}};
  CHECK(hub_tokenizer(bert, "[UNK]")->encode(text) == ids{0});
  bert["normalizer"]["lowercase"] = false;
  CHECK(hub_tokenizer(bert, "[UNK]")->encode(text) == ids{1});
}

TEST_CASE("unsupported parts of a tokenizer.json are named", "[tokenizer]") {
  for (const auto& [pointer, value, says] :
       std::initializer_list<std::tuple<const char*, json, const char*>>{
           {"/model/type", "Ngram", "model: the model 'Ngram' is not supported"},
           {"/model/dropout", 0.1, "\"dropout\" makes texts random"},
           {"/model/ignore_merges", 1, "\"ignore_merges\" must be true or false"},
           {"/model/merges", json::array({"a b c"}), "merges 1: \"a b c\" is not two tokens"},
           {"/model/merges", json::array({json::array({"a", "zzz"})}), "no token \"zzz\""},
           {"/model/merges", {{"x", 1}}, "not an array"},
           {"/model/vocab/a", -1, "the token \"a\": the id -1 is not a whole number"},
           {"/model/vocab/a", 70, "have the same id 70"},
           {"/model/vocab/a", 1e9, "the id 1000000000.0 is not a whole number"},
           {"/model/vocab/a", 70000, "from 0 to 65865, for 330 tokens"},
           {"/normalizer",
            {{"type", "Magic"}},
            "normalizer: the normalizer 'Magic' is not supported"},
           {"/normalizer",
            {{"type", "Precompiled"}, {"precompiled_charsmap", "AAA"}},
            "precompiled_charsmap: 'AAA' is not valid base64"},
           {"/normalizer",
            {{"type", "Precompiled"}, {"precompiled_charsmap", "CAAAAAAA"}},
            "the character table has 6 bytes, but names 8 for its trie"},
           {"/pre_tokenizer", {{"type", "UnicodeScripts"}}, "the pre-tokenizer 'UnicodeScripts'"},
           {"/pre_tokenizer", {{"type", "Metaspace"}}, "\"replacement\" is missing"},
           {"/pre_tokenizer",
            {{"type", "Metaspace"}, {"replacement", "ab"}},
            "\"ab\" is not one character"},
           {"/pre_tokenizer",
            {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "often"}},
            "there is no prepend_scheme 'often'"},
           {"/pre_tokenizer", 5, "it is a JSON number, not an object"},
           {"/pre_tokenizer", json::object(), "\"type\" is missing"},
           {"/pre_tokenizer",
            {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}},
            "pattern: the expression '(a': missing closing parenthesis"},
           {"/pre_tokenizer",
            {{"type", "Split"}, {"pattern", {{"Regex", "[\\S]"}}}, {"behavior", "Isolated"}},
            "'\\S' at byte 1, within a class, is not supported"},
           {"/pre_tokenizer",
            {{"type", "Split"}, {"pattern", {{"Regex", "ba{2}?"}}}, {"behavior", "Isolated"}},
            "'{2}?' at byte 2 is not supported"},
           {"/pre_tokenizer",
            {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Gone"}},
            "there is no behavior 'Gone'"},
           {"/decoder", {{"type", "CTC"}}, "the decoder 'CTC'"},
           {"/post_processor", {{"type", "Other"}}, "the post-processor 'Other'"},
           {"/post_processor",
            {{"type", "BertProcessing"}, {"sep", {"a", 1 << 20}}, {"cls", {"b", 2}}},
            "the id 1048576 is beyond the vocabulary"},
           {"/post_processor",
            json::parse(R"({"type": "TemplateProcessing", "special_tokens": {}, "single": []})"),
            "the text is not in it"},
           {"/added_tokens/0/id", 3, "is 3, but Hugging Face's tokenizers would give it 330"},
           {"/added_tokens/0/content", "a", "is 330, but Hugging Face's tokenizers would give it"},
           {"/added_tokens/0/content", "", "its content is empty"},
           {"/pre_tokenizer", {{"type", "ByteLevel"}}, "\"add_prefix_space\" is missing"},
           {"/added_tokens/0/content", 3, "not a string"},
           {"/added_tokens", 3, "not an array"}}) {
    INFO(pointer << " " << value);
    CHECK_THAT(refusal_with(pointer, value), ContainsSubstring(says));
    CHECK_THAT(refusal_with(pointer, value), ContainsSubstring("tokenizer.json'"));
  }
  auto repeated = file_of("gpt2");
  repeated["added_tokens"].push_back(repeated["added_tokens"][0]);
  CHECK_THROWS_WITH(hub_tokenizer(repeated), ContainsSubstring("\"<|endoftext|>\" occurs twice"));
  auto long_file = file_of("gpt2");
  const auto rule = json::parse(
      R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated", "invert": false})");
  long_file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array()}};
  for (int i = 0; i < 30000; ++i)
    long_file["pre_tokenizer"]["pretokenizers"].push_back(rule);
  CHECK_THROWS_WITH(hub_tokenizer(long_file), ContainsSubstring("more than 100 pre-tokenizers"));
  auto growing = file_of("parts");
  growing["normalizer"]["normalizers"] = json::array();
  for (int i = 0; i < 60; ++i)
    growing["normalizer"]["normalizers"].push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  CHECK_THROWS_WITH(hub_tokenizer(growing)->encode("a"),
                    ContainsSubstring("replaces its own replacements"));
  auto characters = file_of("gpt2");
  const auto bytes
      = json::parse(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})");
  characters["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json(40, bytes)}};
  CHECK_THROWS_WITH(hub_tokenizer(characters)->encode("\u00e9"),
                    ContainsSubstring("replace each other's replacements"));
  auto decoding = file_of("gpt2");
  const auto longer = json::parse(
      R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaaaaaaaaaaaa"})");
  decoding["decoder"] = {{"type", "Sequence"}, {"decoders", json(20, longer)}};
  const auto decodes = hub_tokenizer(decoding);
  CHECK_THROWS_WITH(decodes->decode(decodes->encode("a")),
                    ContainsSubstring("the tokenizer's decoder replaces its own replacements"));
  CHECK_THAT(refusal([](const auto& folder) { write_text(folder / "tokenizer.json", "[1,"); }),
             ContainsSubstring("not JSON"));
  CHECK_THAT(refusal([](const auto& folder) {
               write_text(folder / "tokenizer.json", std::string(200000, '['));
             }),
             ContainsSubstring("more than 64 deep"));
}

TEST_CASE("explicit default values do not change the fingerprint", "[tokenizer]") {
  const auto file = file_of("qwen2");
  const auto before = hub_tokenizer(file)->fingerprint();
  auto shorter = file;
  for (const auto* key : {"ignore_merges", "byte_fallback", "fuse_unk", "unk_token"})
    shorter["model"].erase(key);
  shorter["pre_tokenizer"]["pretokenizers"][0].erase("invert");
  CHECK(hub_tokenizer(shorter)->fingerprint() == before);
  shorter["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed";
  CHECK_FALSE(hub_tokenizer(shorter)->fingerprint() == before);
}

TEST_CASE("the last place of a duplicate merge counts", "[tokenizer]") {
  auto file = file_of("gpt2");
  auto& merges = file["model"]["merges"];
  const auto first = merges[0];
  auto moved = file;
  moved["model"]["merges"].erase(0);
  moved["model"]["merges"].push_back(first);
  merges.push_back(first);
  const auto t = hub_tokenizer(file), by = hub_tokenizer(moved);
  for (const auto& text : golden().at("texts"))
    CHECK(t->encode(text.get<std::string>()) == by->encode(text.get<std::string>()));
}

TEST_CASE("two files are not read as GPT-2's if the folder has another model", "[tokenizer]") {
  const auto with = [](const char* name, const char* text) {
    return refusal([&](const std::filesystem::path& folder) {
      const auto file = file_of("gpt2");
      auto vocab = file["model"]["vocab"];
      vocab["<|endoftext|>"] = vocab.size();
      write_text(folder / "vocab.json", vocab.dump());
      write_text(folder / "merges.txt", "#version: 0.2\n");
      if (name)
        write_text(folder / name, text);
    });
  };
  CHECK(with(nullptr, nullptr) == "none");
  CHECK(with("config.json", R"({"model_type": "gpt2"})") == "none");
  CHECK(with("tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})") == "none");
  CHECK_THAT(with("config.json", R"({"model_type": "qwen2"})"),
             ContainsSubstring("it is of 'qwen2'") && ContainsSubstring("tokenizer.json"));
  CHECK_THAT(with("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})"),
             ContainsSubstring("it is of 'Qwen2Tokenizer'"));
  CHECK_THAT(with("tokenizer_config.json", R"({"add_prefix_space": true})"),
             ContainsSubstring("add_prefix_space"));
  CHECK_THAT(with("added_tokens.json", "{}"), ContainsSubstring("added_tokens.json"));
  CHECK_THAT(with("config.json", "{broken"), ContainsSubstring("config.json': it is not a JSON"));
  CHECK_THAT(refusal([](const auto&) {}), ContainsSubstring("neither tokenizer.json, nor"));
}

TEST_CASE("a tokenizer.json is stored with the run, with the file that names the end of documents",
          "[tokenizer]") {
  const scratch_folder folder;
  write_hub_tokenizer(folder / "hub", file_of("qwen2"));
  write_text(folder / "hub/tokenizer_config.json", R"({"eos_token": "<|im_start|>"})");
  const auto choice = tokenizer_in(folder / "hub");
  const auto original = make_tokenizer(choice);
  const auto description = describe(choice, *original);
  keep_tokenizer(description, folder / "run");
  // Other settings may change, such as chat templates.
  write_text(folder / "hub/tokenizer_config.json", R"({"eos_token": "<|im_start|>", "x": 1})");
  keep_tokenizer(description, folder / "run");
  write_text(folder / "hub/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  CHECK_THROWS_WITH(keep_tokenizer(description, folder / "run"),
                    ContainsSubstring("a run with another tokenizer"));
  std::filesystem::remove_all(folder / "hub");
  const auto found = described_tokenizer(description, folder / "run");
  CHECK(found->fingerprint() == original->fingerprint());
  CHECK(found->end_of_document() == original->end_of_document());
  write_text(folder / "run/tokenizer/tokenizer_config.json", R"({"eos_token": "<think>"})");
  CHECK_THROWS_WITH(described_tokenizer(description, folder / "run"),
                    ContainsSubstring("fingerprint"));
}

TEST_CASE(
    "a damaged copy of the end-of-document file is rewritten if checkpoints know the tokenizer",
    "[tokenizer]") {
  const auto damage
      = GENERATE(as<std::string>{}, "", "{", "{}", R"({"eos_token": "<|endoftext|>"})");
  CAPTURE(damage);
  const scratch_folder folder;
  write_hub_tokenizer(folder / "hub", file_of("qwen2"), "<|im_start|>");
  const auto choice = tokenizer_in(folder / "hub");
  const auto original = make_tokenizer(choice);
  const auto description = describe(choice, *original);
  keep_tokenizer(description, folder / "run");
  const auto kept = folder / "run/tokenizer/tokenizer_config.json";
  const auto text = read_text(kept);
  write_text(kept, damage);
  const std::function<bool()> nobody, unknown = [] { return false; }, known = [] { return true; };
  for (const auto& is_known : {nobody, unknown})
    CHECK_THROWS_WITH(
        keep_tokenizer(description, folder / "run", is_known),
        ContainsSubstring("tokenizer_config.json' differs from '")
            && ContainsSubstring("If it is damaged, remove it, and it is written again"));
  CHECK(read_text(kept) == damage);
  keep_tokenizer(description, folder / "run", known);
  CHECK(read_text(kept) == text);
  CHECK(described_tokenizer(description, folder / "run")->fingerprint() == original->fingerprint());
  const std::string changed = R"({"eos_token": "<|im_start|>", "chat_template": "mine"})";
  write_text(kept, changed);
  keep_tokenizer(description, folder / "run", known);
  CHECK(read_text(kept) == changed);
}

TEST_CASE("only the damaged copy is rewritten; one that the user changed stays", "[tokenizer]") {
  const scratch_folder folder;
  const auto config = folder / "run/tokenizer/tokenizer_config.json",
             map = folder / "run/tokenizer/special_tokens_map.json";
  const std::string end = R"({"eos_token": "<|im_start|>"})", mine = R"({"chat_template": "mine"})",
                    also_mine = R"({"eos_token": {"content": "<|im_start|>"}, "x": 1})";
  const bool in_config = GENERATE(false, true);
  CAPTURE(in_config);
  write_hub_tokenizer(folder / "hub", file_of("qwen2"));
  write_text(folder / "hub/tokenizer_config.json", in_config ? end : "{}");
  write_text(folder / "hub/special_tokens_map.json", end);
  const auto choice = tokenizer_in(folder / "hub");
  const auto description = describe(choice, *make_tokenizer(choice));
  keep_tokenizer(description, folder / "run");
  write_text(config, in_config ? "{" : mine);
  write_text(map, in_config ? also_mine : "{");
  keep_tokenizer(description, folder / "run", [] { return true; });
  CHECK(read_text(config) == (in_config ? end : mine));
  CHECK(read_text(map) == (in_config ? also_mine : end));
}

TEST_CASE("a copy with an extra end-of-document file is refused, and the file stays",
          "[tokenizer]") {
  const scratch_folder folder;
  write_hub_tokenizer(folder / "hub", file_of("qwen2"));
  std::filesystem::rename(folder / "hub/tokenizer_config.json",
                          folder / "hub/special_tokens_map.json");
  const auto choice = tokenizer_in(folder / "hub");
  const auto description = describe(choice, *make_tokenizer(choice));
  keep_tokenizer(description, folder / "run");
  const auto added = folder / "run/tokenizer/tokenizer_config.json";
  write_text(added, R"({"eos_token": "<|im_start|>"})");
  CHECK_THROWS_WITH(
      keep_tokenizer(description, folder / "run", [] { return true; }),
      ContainsSubstring("tokenizer_config.json or special_tokens_map.json that is not "
                        "beside '"));
  std::filesystem::remove(added);
  CHECK_NOTHROW(keep_tokenizer(description, folder / "run"));
}
