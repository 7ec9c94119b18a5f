#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/data/record_reader.hpp"
#include "runtime/data/utf8.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

using nlohmann::json;

/// Makes text of a file safe for a terminal: shortens it and replaces control bytes.
std::string told(std::string text) {
  constexpr std::size_t longest = 300;
  if (text.size() > longest) {
    auto end = longest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
      --end;  // within a character
    text.resize(end);
    text += "...";
  }
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

/// The reason without "[json.exception...] parse error at line 1, column 7: ". The caller adds the
/// line of the file.
std::string reason(const json::parse_error& e) {
  const std::string all = e.what();
  const auto position = all.find("column ");
  const auto colon = position == std::string::npos ? position : all.find(": ", position);
  return told(colon == std::string::npos ? all : all.substr(colon + 2));
}

std::string keys_of(const json& object) {
  std::string out;
  for (const auto& [key, value] : object.items())
    out += (out.empty() ? "" : ", ") + told(key);
  return out.empty() ? "it has none" : "it has " + told(out);
}

void require_utf8(const std::filesystem::path& path, const text_record& record) {
  const auto bad = first_invalid_utf8(record.text);
  if (bad == std::string_view::npos)
    return;
  const auto before = record.text.substr(0, bad);
  throw input_error(
      "cannot read '{}', line {}: its byte {} (0x{:02x}) is not UTF-8; convert the file, for "
      "example with iconv -f LATIN1 -t UTF-8",
      path.string(),
      record.line + std::uint64_t(std::count(before.begin(), before.end(), '\n')),
      bad - (before.rfind('\n') + 1) + 1,
      static_cast<unsigned char>(record.text[bad]));
}

}  // namespace

record_parser::record_parser(std::filesystem::path path,
                             text_format format,
                             std::vector<std::string> keys)
    : path_(std::move(path)),
      format_(format),
      keys_(std::move(keys)),
      value_(std::make_unique<json>()),
      documents_(keys_.size()) {}

record_parser::~record_parser() = default;

const std::vector<std::vector<std::string_view>>& record_parser::parse(const text_record& record,
                                                                       bool lists) {
  for (auto& one : documents_)
    one.clear();
  if (format_ == text_format::jsonl) {
    json_line(record, lists);
  } else {
    require_utf8(path_, record);
    for (auto& one : documents_)
      one.push_back(record.text);
  }
  return documents_;
}

void record_parser::json_line(const text_record& record, bool lists) {
  const auto refuse = [&](const std::string& what, const std::string& key) {
    throw input_error(
        "cannot read '{}', line {}: {}; each line must be one JSON object with a string under '{}'",
        path_.string(),
        record.line,
        what,
        key);
  };
  try {
    *value_ = json_value_of_record(record.text);
  } catch (const json::parse_error& e) {
    refuse(fmt::format("at byte {}: {}", e.byte, reason(e)), keys_.front());
  } catch (const json::exception& e) {
    refuse(told(json_complaint(e)), keys_.front());
  }
  if (!value_->is_object())
    refuse(fmt::format("it is a JSON {}, not an object", value_->type_name()), keys_.front());
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    const auto& key = keys_[k];
    const auto found = value_->find(key);
    if (found == value_->end())
      refuse(fmt::format("it has no key '{}' ({})", key, keys_of(*value_)), key);
    const auto take = [&](const json& one, const char* what) {
      if (!one.is_string())
        refuse(fmt::format("its '{}' {} {}, not a string", key, what, one.type_name()), key);
      documents_[k].push_back(one.get_ref<const std::string&>());
    };
    if (lists && found->is_array())
      for (const auto& one : *found)
        take(one, "has a");
    else
      take(*found, "is a");
  }
}

}  // namespace troupe::runtime
