#include "runtime/tokenizer/description.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/null_tokenizer.hpp"
#include "runtime/tokenizer/tiktoken.hpp"
#include "runtime/tokenizer/tokenizer_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kept_folder = "tokenizer";
const fs::path further_templates = "additional_chat_templates";

/// A file of a tokenizer_choice, its JSON key, and the name of its copy.
struct named_file {
  fs::path tokenizer_choice::*path;
  const char* key;
  const char* kept;
};

const std::vector<named_file>& files_of(const tokenizer_choice& of) {
  using choice = tokenizer_choice;
  static const std::vector<named_file> none,
      gpt2{{&choice::vocab_file, "vocab_file", "vocab.json"},
           {&choice::merge_file, "merge_file", "merges.txt"}},
      hub{{&choice::model, "tokenizer_file", "tokenizer.json"}},
      bert{{&choice::vocab_file, "vocab_file", "vocab.txt"}},
      model{{&choice::model, "tokenizer_file", "tokenizer.model"}},
      kimi{{&choice::model, "tokenizer_file", "tiktoken.model"}};
  switch (family_of(of.type).value_or(tokenizer_family::null)) {
    case tokenizer_family::null:
      return none;
    case tokenizer_family::gpt2:
      return gpt2;
    case tokenizer_family::hub:
      return hub;
    case tokenizer_family::bert:
      return bert;
    case tokenizer_family::tiktoken:
      return of.pattern == kimi_pattern ? kimi : model;
    case tokenizer_family::sentence_piece:
      break;
  }
  return model;
}

bool has_number_of_ids(const std::string& type) {
  const auto family = family_of(type);
  return family == tokenizer_family::null || family == tokenizer_family::tiktoken;
}

/// Adds the files that do not affect ids: chat settings, and the same tokenizer in the forms that
/// other programs read.
void add_configuration(const fs::path& folder, bool forms, std::vector<tokenizer_file>& to) {
  const auto add = [&](const char* name) {
    std::error_code failure;
    if (const auto file = folder / name;
        fs::exists(file, failure) && std::ranges::count(to, name, &tokenizer_file::name) == 0)
      to.push_back({file, name, false});
  };
  for (const auto* name : naming_end_of_document)
    add(name);
  add("chat_template.jinja");
  add("added_tokens.json");
  if (forms)
    for (const auto* name : {"vocab.json", "merges.txt", "tokenizer.model"})
      add(name);
}

void add_further_templates(const fs::path& folder, std::vector<tokenizer_file>& to) {
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder / further_templates, failure))
    if (entry.path().extension() == ".jinja")
      to.push_back({entry.path(), further_templates / entry.path().filename(), false});
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
  for (const auto& file : files_of(out.choice))
    if (json.contains(file.key))
      out.choice.*file.path = from_text_or_bytes(json[file.key]).value_or("");
  if (out.choice.type.empty() || out.fingerprint.empty())
    throw input_error("the description of the tokenizer lacks a type or a fingerprint: '{}'",
                      description.substr(0, 200));
  const auto number = [&](const char* key, std::int32_t& to) {
    const auto found = json.find(key);
    if (found == json.end())
      return;
    const auto value = whole_number_in(*found);
    if (!value || !std::in_range<std::int32_t>(*value))
      throw input_error("the description of the tokenizer has an invalid value {} for {}: '{}'",
                        json_text_replacing(*found),
                        key,
                        description.substr(0, 200));
    to = std::int32_t(*value);
  };
  if (has_number_of_ids(out.choice.type))
    number("vocabulary_size", out.choice.vocabulary_size);
  number("special_tokens", out.choice.special_tokens);
  out.choice.pattern = text("pattern");
  return out;
}

/// Returns false if the copy cannot be read.
bool has_text(const fs::path& copy, const std::string& text) {
  try {
    return read_text(copy) == text;
  } catch (const input_error&) {
    return false;
  }
}

/// Returns false if the files beside `copy` cannot be read.
bool names_end_of_document(const fs::path& copy, const std::optional<std::string>& end) {
  try {
    return named_end_of_document(copy) == end;
  } catch (const input_error&) {
    return false;
  }
}

/// Returns false if the copy cannot be read.
bool has_end_of_document(const fs::path& copy, const std::optional<std::string>& end) {
  try {
    return end_of_document_in(copy) == end;
  } catch (const input_error&) {
    return false;
  }
}

/// The copies of a tokenizer's files in a checkpoint folder.
struct kept_copies {
  const fs::path& folder;
  const std::function<bool()>& is_known;

  fs::path of(const tokenizer_file& file) const { return folder / kept_folder / file.name; }

  /// Rewrites a copy that differs, if checkpoints there were saved with this tokenizer.
  void restore(const tokenizer_file& file, const std::string& text) const {
    const auto kept = of(file);
    if (!is_known || !is_known())
      throw input_error(
          "'{0}' differs from '{1}': it is damaged, or the checkpoints in '{2}' are of a run with "
          "another tokenizer. If it is damaged, remove it, and it is written again; else choose "
          "another folder",
          kept.string(),
          file.path.string(),
          folder.string());
    write_text(kept, text);
    log_warning(
        "'{}' was damaged: it is written again from '{}'", kept.string(), file.path.string());
  }

  void keep(const tokenizer_file& file) const {
    const auto text = read_text(file.path);
    remove_parts_of(of(file));
    std::error_code failure;
    if (!fs::exists(of(file), failure))
      write_text(of(file), text);
    else if (file.decides && !has_text(of(file), text))
      restore(file, text);
  }

  /// Restores the copies that decide the end-of-document token, for a tokenizer.json (files[0]).
  /// The other content of those files is kept, because the user may have edited it.
  void keep_end_of_document(const std::vector<tokenizer_file>& files) const {
    const auto& model = files.front();
    const auto end = named_end_of_document(model.path);
    for (const auto& file : files) {
      if (names_end_of_document(of(model), end))
        return;
      if (std::ranges::count(naming_end_of_document, file.name) > 0
          && !has_end_of_document(of(file), end_of_document_in(file.path)))
        restore(file, read_text(file.path));
    }
    if (!names_end_of_document(of(model), end))
      throw input_error(
          "'{0}' has a {1} that is not beside '{2}' and names another end-of-document token: "
          "remove it, or choose another folder if the checkpoints in '{3}' are of another run",
          of(model).parent_path().string(),
          fmt::join(naming_end_of_document, " or "),
          model.path.string(),
          folder.string());
  }
};

}  // namespace

std::string describe(const tokenizer_choice& choice, const tokenizer& made) {
  nlohmann::ordered_json out;
  out["type"] = made.kind();
  out["vocabulary_size"] = made.vocabulary_size();
  out["fingerprint"] = to_string(made.fingerprint());
  if (family_of(choice.type) == tokenizer_family::tiktoken) {
    out["pattern"] = choice.pattern;
    out["special_tokens"] = choice.special_tokens;
  }
  for (const auto& file : files_of(choice))
    out[file.key] = text_or_bytes(fs::absolute(choice.*file.path).lexically_normal().string());
  return json_text_replacing(out, -1, json_characters::ascii);
}

std::vector<tokenizer_file> tokenizer_files(const tokenizer_choice& choice) {
  std::vector<tokenizer_file> out;
  for (const auto& file : files_of(choice))
    out.push_back({choice.*file.path, file.kept});
  if (out.empty())
    return out;
  const auto folder = out.front().path.parent_path();
  add_configuration(folder, family_of(choice.type) == tokenizer_family::hub, out);
  add_further_templates(folder, out);
  return out;
}

fs::path kept_tokenizer_folder(const fs::path& run) {
  return run / kept_folder;
}

bool describe_the_same(const std::string& a, const std::string& b) {
  const auto x = parsed(a), y = parsed(b);
  return x.choice.type == y.choice.type && x.fingerprint == y.fingerprint;
}

void keep_tokenizer(const std::string& description,
                    const fs::path& folder,
                    const std::function<bool()>& is_known) {
  const auto from = parsed(description).choice;
  const auto files = tokenizer_files(from);
  if (files.empty())
    return;
  const auto to = folder / kept_folder;
  make_folder(to);
  if (files.back().path.parent_path().filename() == further_templates)
    make_folder(to / further_templates);
  const kept_copies copies{folder, is_known};
  for (const auto& file : files)
    copies.keep(file);
  if (family_of(from.type) == tokenizer_family::hub)
    copies.keep_end_of_document(files);
}

tokenizer_choice described_choice(const std::string& description, const fs::path& folder) {
  auto choice = parsed(description).choice;
  const auto kept = folder / kept_folder;
  for (const auto& file : files_of(choice)) {
    std::error_code failure;
    if (fs::exists(kept / file.kept, failure))
      choice.*file.path = kept / file.kept;
    else if ((choice.*file.path).empty())
      throw input_error(
          "the model was trained with a {}, but '{}' with its {} is missing: restore it, or give a "
          "folder that has it with `tokenizer.folder` DIR",
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

std::unique_ptr<const tokenizer> named_tokenizer(const std::string& description) {
  auto out = make_tokenizer(parsed(description).choice);
  require_described(*out, description);
  return out;
}

void require_described(const tokenizer& x, const std::string& description) {
  const auto& [choice, fingerprint] = parsed(description);
  if (to_string(x.fingerprint()) == fingerprint)
    return;
  if (choice.type == null_tokenizer::type_name && x.kind() != choice.type)
    throw input_error(
        "the model was trained or imported without a text tokenizer, so its ids may differ from "
        "those of this {}: give no tokenizer; or, if it was imported, import it again into another "
        "folder with `troupe checkpoint import` and `tokenizer.folder` DIR",
        x.kind());
  throw input_error(
      "this {} differs from the one that the model was trained with: its fingerprint is {}, not "
      "{}; "
      "restore its files",
      x.kind(),
      to_string(x.fingerprint()),
      fingerprint);
}

}  // namespace troupe::runtime
