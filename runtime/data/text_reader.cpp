#include "runtime/data/text_reader.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/data/utf8.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

using nlohmann::json;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string_view without_line_end(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

/// The words after "[json.exception...] parse error at line 1, column 7: ": the line is ours to
/// say.
std::string reason(const json::parse_error& e) {
  const std::string all = e.what();
  const auto position = all.find("column ");
  const auto colon = position == std::string::npos ? position : all.find(": ", position);
  return colon == std::string::npos ? all : all.substr(colon + 2);
}

std::string keys_of(const json& object) {
  std::string out;
  for (const auto& [key, value] : object.items())
    out += (out.empty() ? "" : ", ") + key;
  return out.empty() ? "it has none" : "it has " + out;
}

/// Reads a file line by line and knows where it is.
class reader {
 public:
  reader(const std::filesystem::path& path,
         const text_options& options,
         const document_visitor& visit)
      : path_(path), file_(path), options_(options), visit_(visit), text_(file_.text()) {
    if (text_.starts_with("\xef\xbb\xbf"))
      at_ = 3;
  }

  void json_lines() {
    for (std::string_view line; next(line);)
      if (!is_blank(line))
        json_line(line);
  }

  void lines() {
    for (std::string_view line; next(line);)
      if (!is_blank(line))
        plain(line, line_);
  }

  void paragraphs() {
    std::size_t begin = 0, end = 0;  // of the paragraph; none while they are equal
    std::uint64_t first_line = 0;
    const auto finish = [&] {
      if (end > begin)
        plain(text_.substr(begin, end - begin), first_line);
      begin = end = 0;
    };
    for (std::string_view line; next(line);) {
      if (is_blank(line)) {
        finish();
        continue;
      }
      if (end == begin) {
        begin = at_ - line.size();
        first_line = line_;
      }
      end = at_;
    }
    finish();
  }

  void whole() {
    const auto text = text_.substr(at_);
    at_ = text_.size();
    if (!text.empty()) {
      check_utf8(text, 1);
      file_.require_intact();
      visit_(text, at_);
    }
  }

 private:
  /// The next line with its end.
  bool next(std::string_view& line) {
    if (at_ >= text_.size())
      return false;
    const auto end = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
    line = text_.substr(at_, end - at_);
    at_ = end;
    ++line_;
    return true;
  }

  void plain(std::string_view text, std::uint64_t first_line) {
    file_.require_intact();
    check_utf8(text, first_line);
    visit_(without_line_end(text), at_);
  }

  void check_utf8(std::string_view text, std::uint64_t first_line) const {
    const auto bad = first_invalid_utf8(text);
    if (bad == std::string_view::npos)
      return;
    const auto before = text.substr(0, bad);
    throw input_error(
        "cannot read '{}', line {}: its byte {} (0x{:02x}) is not UTF-8; convert the file, for "
        "example with iconv -t UTF-8",
        path_.string(),
        first_line + std::uint64_t(std::count(before.begin(), before.end(), '\n')),
        bad - (before.rfind('\n') + 1) + 1,
        static_cast<unsigned char>(text[bad]));
  }

  void json_line(std::string_view line) const {
    const auto refuse = [this](const std::string& what) {
      throw input_error(
          "cannot read '{}', line {}: {}; each line must be one JSON object with a string under "
          "'{}'",
          path_.string(),
          line_,
          what,
          options_.json_key);
    };
    file_.require_intact();
    json value;
    try {
      value = json_value(line);
    } catch (const json::parse_error& e) {
      refuse(fmt::format("at byte {}: {}", e.byte, reason(e)));
    } catch (const json::exception& e) {
      refuse(e.what());
    }
    if (!value.is_object())
      refuse(fmt::format("it is a JSON {}, not an object", value.type_name()));
    const auto found = value.find(options_.json_key);
    if (found == value.end())
      refuse(fmt::format("it has no key '{}' ({})", options_.json_key, keys_of(value)));
    if (!found->is_string())
      refuse(fmt::format("its '{}' is a {}, not a string", options_.json_key, found->type_name()));
    visit_(found->get_ref<const std::string&>(), at_);
  }

  const std::filesystem::path& path_;
  mapped_file file_;
  const text_options& options_;
  const document_visitor& visit_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 0;  ///< of the line that was read last, from 1
};

}  // namespace

text_format text_format_of(const std::filesystem::path& path) {
  return path.extension() == ".jsonl" || path.extension() == ".json" ? text_format::jsonl
                                                                     : text_format::paragraphs;
}

text_format parse_text_format(std::string_view name) {
  if (name == "jsonl")
    return text_format::jsonl;
  if (name == "paragraphs")
    return text_format::paragraphs;
  if (name == "lines")
    return text_format::lines;
  if (name == "whole")
    return text_format::whole;
  throw input_error("cannot read text as '{}': it must be jsonl, paragraphs, lines or whole", name);
}

void for_each_document(const std::filesystem::path& path,
                       const text_options& options,
                       const document_visitor& visit) {
  reader from(path, options, visit);
  switch (options.format) {
    case text_format::jsonl:
      return from.json_lines();
    case text_format::paragraphs:
      return from.paragraphs();
    case text_format::lines:
      return from.lines();
    case text_format::whole:
      return from.whole();
  }
}

}  // namespace troupe::runtime
