#include "runtime/data/dataset_manifest.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/part_file.hpp"

#include <algorithm>
#include <vector>

namespace troupe::runtime {
namespace {

constexpr int manifest_format = 1;
constexpr std::uint64_t longest = 1 << 20;  // bytes

bool stands_for_text(const dataset_manifest& x) {
  return family_of(x.tokenizer) != tokenizer_family::null;
}

bool is_there(const std::filesystem::path& path, const object_access& objects) {
  return is_object_url(path.string())
             ? objects.store.find(parse_object_url(path.string())).has_value()
             : std::filesystem::exists(path);
}

/// Reads at most `longest` bytes: a longer file is then refused as invalid JSON.
std::string text_of(const std::filesystem::path& path, const object_access& objects) {
  const auto source = open_bytes(path, objects);
  std::vector<std::byte> scratch;
  const auto bytes = source->bytes(0, std::size_t(std::min(source->size(), longest)), scratch);
  std::string out(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  source->require_intact();
  return out;
}

[[noreturn]] void refuse_damaged(const std::filesystem::path& manifest) {
  throw input_error(
      "cannot read '{}': it is damaged; it identifies the tokenizer of the data set beside it: "
      "copy "
      "it again, or remove it if you know the tokenizer",
      manifest.string());
}

}  // namespace

dataset_manifest manifest_of(const tokenizer& made_by) {
  return {.tokenizer = made_by.kind(),
          .fingerprint = to_string(made_by.fingerprint()),
          .vocabulary = made_by.vocabulary_size(),
          .end_of_document = made_by.names_end_of_document() ? made_by.end_of_document() : -1};
}

std::string to_text(const dataset_manifest& x) {
  return fmt::format("{} of {} ids (fingerprint {}, {})",
                     x.tokenizer,
                     x.vocabulary,
                     x.fingerprint,
                     x.end_of_document < 0
                         ? std::string("no token ends documents")
                         : fmt::format("documents end with {}", x.end_of_document));
}

std::filesystem::path manifest_path(const std::filesystem::path& prefix) {
  return prefix.string() + ".manifest.json";
}

void write_manifest(const std::filesystem::path& prefix, const std::optional<dataset_manifest>& x) {
  if (!x)
    return remove_file(manifest_path(prefix));
  const nlohmann::ordered_json out = {{"format", manifest_format},
                                      {"tokenizer",
                                       {{"type", x->tokenizer},
                                        {"fingerprint", x->fingerprint},
                                        {"vocabulary_size", x->vocabulary},
                                        {"end_of_document", x->end_of_document}}}};
  // A fixed temporary name: after a crash the next process overwrites the file.
  const auto text = json_text(out, 1) + "\n";
  const std::filesystem::path next = manifest_path(prefix).string() + ".partial";
  {
    part_file to(next, 0);
    to.write(text.data(), text.size());
    to.sync();
  }
  rename_part(next, manifest_path(prefix));
}

std::optional<dataset_manifest> read_manifest(const std::filesystem::path& prefix,
                                              const object_access& objects) {
  const auto path = manifest_path(prefix);
  if (!is_there(path, objects))
    return std::nullopt;
  try {
    const auto all = json_value(text_of(path, objects));
    if (const auto& format = all.at("format"); format != manifest_format)
      throw input_error(
          "cannot read '{}': it is of format {}, but this program reads {}; it identifies the "
          "tokenizer of the data set beside it: remove it if you know the tokenizer",
          path.string(),
          json_text(format),
          manifest_format);
    const auto& from = all.at("tokenizer");
    const auto vocabulary = whole_number_in(from.at("vocabulary_size"));
    const auto end_of_document = whole_number_in(from.at("end_of_document"));
    if (!vocabulary || !end_of_document)
      refuse_damaged(path);
    return dataset_manifest{.tokenizer = from.at("type"),
                            .fingerprint = from.at("fingerprint"),
                            .vocabulary = *vocabulary,
                            .end_of_document = *end_of_document};
  } catch (const nlohmann::json::exception&) {
    refuse_damaged(path);
  }
}

bool have_other_ids(const dataset_manifest& a, const dataset_manifest& b) {
  return stands_for_text(a) && stands_for_text(b)
         && (a.fingerprint != b.fingerprint || a.end_of_document != b.end_of_document);
}

}  // namespace troupe::runtime
