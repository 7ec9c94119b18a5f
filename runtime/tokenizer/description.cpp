#include "runtime/tokenizer/description.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kept_folder = "tokenizer";
constexpr const char* kept_vocab = "vocab.json";
constexpr const char* kept_merges = "merges.txt";

struct remembered {
  tokenizer_choice choice;
  std::string fingerprint;
};

remembered parsed(const std::string& description) {
  const auto json = json_value_or_discarded(description);
  const auto text = [&](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  remembered out{
      {.type = text("type"), .vocab_file = text("vocab_file"), .merge_file = text("merge_file")},
      text("fingerprint")};
  if (out.choice.type.empty() || out.fingerprint.empty())
    throw input_error("the description of the tokenizer names no type or no fingerprint: '{}'",
                      description.substr(0, 200));
  if (const auto size = json.find("vocabulary_size"); out.choice.type == null_tokenizer::type_name
                                                      && size != json.end()
                                                      && size->is_number_integer())
    out.choice.vocabulary_size = size->get<std::int32_t>();
  return out;
}

}  // namespace

std::string describe(const tokenizer_choice& choice, const tokenizer& made) {
  nlohmann::ordered_json out;
  out["type"] = made.kind();
  out["vocabulary_size"] = made.vocabulary_size();
  out["fingerprint"] = to_string(made.fingerprint());
  if (!choice.vocab_file.empty())
    out["vocab_file"] = fs::absolute(choice.vocab_file).lexically_normal().string();
  if (!choice.merge_file.empty())
    out["merge_file"] = fs::absolute(choice.merge_file).lexically_normal().string();
  return json_text_replacing(out, -1, json_characters::ascii);
}

void keep_tokenizer(const std::string& description, const fs::path& folder) {
  const auto from = parsed(description).choice;
  if (from.type != bpe_tokenizer::type_name)
    return;
  const auto to = folder / kept_folder;
  make_folder(to);
  const std::pair<fs::path, const char*> files[]
      = {{from.vocab_file, kept_vocab}, {from.merge_file, kept_merges}};
  for (const auto& [path, name] : files) {
    const auto text = read_text(path);
    std::error_code failure;
    if (!fs::exists(to / name, failure))
      write_text(to / name, text);
    else if (read_text(to / name) != text)
      throw input_error(
          "'{}' is of another tokenizer than '{}': the checkpoints in '{}' are of another run; "
          "choose another folder",
          (to / name).string(),
          path.string(),
          folder.string());
  }
}

tokenizer_choice described_choice(const std::string& description, const fs::path& folder) {
  auto choice = parsed(description).choice;
  const auto kept = folder / kept_folder;
  if (std::error_code failure;
      choice.type == bpe_tokenizer::type_name && fs::exists(kept / kept_vocab, failure)) {
    choice.vocab_file = kept / kept_vocab;
    choice.merge_file = kept / kept_merges;
  } else if (choice.type == bpe_tokenizer::type_name && choice.vocab_file.empty()) {
    throw input_error(
        "the model was trained with a {}, but '{}' with its vocab.json and merges.txt is missing: "
        "restore it, or name the files by `tokenizer.folder` DIR",
        choice.type,
        kept.string());
  }
  return choice;
}

std::unique_ptr<const tokenizer> described_tokenizer(const std::string& description,
                                                     const fs::path& folder) {
  auto out = make_tokenizer(described_choice(description, folder));
  require_described(*out, description);
  return out;
}

void require_described(const tokenizer& x, const std::string& description) {
  const auto fingerprint = parsed(description).fingerprint;
  if (to_string(x.fingerprint()) != fingerprint)
    throw input_error(
        "this {} is not the one that the model was trained with: its fingerprint is {}, not {}; "
        "restore its files",
        x.kind(),
        to_string(x.fingerprint()),
        fingerprint);
}

}  // namespace troupe::runtime
