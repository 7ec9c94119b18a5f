#include "runtime/tokenizer/description.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/tokenizer/bpe_tokenizer.hpp"
#include "runtime/tokenizer/json_tokenizer.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <vector>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kept_folder = "tokenizer";

/// A file that a choice names, and the name that its copy has.
struct named_file {
  fs::path tokenizer_choice::*path;
  const char* key;
  const char* kept;
};

const std::vector<named_file>& files_of(const std::string& type) {
  static const std::vector<named_file> none;
  static const std::vector<named_file> bpe
      = {{&tokenizer_choice::vocab_file, "vocab_file", "vocab.json"},
         {&tokenizer_choice::merge_file, "merge_file", "merges.txt"}};
  static const std::vector<named_file> model
      = {{&tokenizer_choice::model, "tokenizer_file", "tokenizer.json"}};
  return type == bpe_tokenizer::type_name ? bpe : type == json_tokenizer::type_name ? model : none;
}

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
  remembered out{{.type = text("type")}, text("fingerprint")};
  for (const auto& file : files_of(out.choice.type))
    out.choice.*file.path = text(file.key);
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
  for (const auto& file : files_of(choice.type))
    out[file.key] = fs::absolute(choice.*file.path).lexically_normal().string();
  return json_text_replacing(out, -1, json_characters::ascii);
}

std::vector<fs::path> tokenizer_files(const tokenizer_choice& choice) {
  std::vector<fs::path> out;
  for (const auto& file : files_of(choice.type))
    out.push_back(choice.*file.path);
  if (choice.type == json_tokenizer::type_name)
    for (const auto* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
      std::error_code failure;
      if (const auto beside = choice.model.parent_path() / name; fs::exists(beside, failure))
        out.push_back(beside);
    }
  return out;
}

void keep_tokenizer(const std::string& description, const fs::path& folder) {
  const auto from = parsed(description).choice;
  const auto files = tokenizer_files(from);
  if (files.empty())
    return;
  const auto to = folder / kept_folder;
  make_folder(to);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& named = files_of(from.type);
    const bool decides = i < named.size();  // others may change but for what the fingerprint has
    const auto kept = to / (decides ? named[i].kept : files[i].filename());
    const auto text = read_text(files[i]);
    std::error_code failure;
    if (!fs::exists(kept, failure))
      write_text(kept, text);
    else if (decides && read_text(kept) != text)
      throw input_error(
          "'{0}' is not the same as '{1}': it is damaged, or the checkpoints in '{2}' are of a run "
          "with another tokenizer. Where it is damaged, remove it, and it is written again; else "
          "choose another folder",
          kept.string(),
          files[i].string(),
          folder.string());
  }
  if (from.type == json_tokenizer::type_name
      && named_end_of_document(to / files_of(from.type).front().kept)
             != named_end_of_document(from.model))
    throw input_error(
        "'{}' names another token that ends a document than what lies beside '{}': the checkpoints "
        "in '{}' are of another run; choose another folder",
        to.string(),
        from.model.string(),
        folder.string());
}

tokenizer_choice described_choice(const std::string& description, const fs::path& folder) {
  auto choice = parsed(description).choice;
  const auto kept = folder / kept_folder;
  for (const auto& file : files_of(choice.type)) {
    std::error_code failure;
    if (fs::exists(kept / file.kept, failure))
      choice.*file.path = kept / file.kept;
    else if ((choice.*file.path).empty())
      throw input_error(
          "the model was trained with a {}, but '{}' with its {} is missing: restore it, or name "
          "a folder that has it by `tokenizer.folder` DIR",
          choice.type,
          kept.string(),
          file.kept);
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
