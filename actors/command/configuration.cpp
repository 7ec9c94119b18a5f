#include "actors/command/configuration.hpp"

#include "actors/command/help_text.hpp"
#include "actors/command/standard_input.hpp"
#include "runtime/core/base64.hpp"
#include "runtime/core/error.hpp"
#include "runtime/data/utf8.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <yaml-cpp/binary.h>
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

namespace troupe::command {
namespace {

constexpr std::size_t largest = 1 << 20;  // bytes; far more than all flags with their help
constexpr const char* binary_tag = "tag:yaml.org,2002:binary";  // base64 follows

/// Position of the first zero byte or invalid UTF-8; npos if the text is valid.
std::size_t first_wrong_byte(const std::string& text) {
  return std::min(text.find('\0'), runtime::first_invalid_utf8(text));
}

/// True if yaml-cpp cannot write the text: it has a byte order mark or a noncharacter of Unicode
/// (U+FDD0 to U+FDEF, and the last two code points of each plane).
bool has_no_character(std::string_view utf8) {
  if (utf8.find("\xEF\xBB\xBF") != std::string_view::npos)
    return true;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(utf8[i]); };
  for (std::size_t i = 0; i + 2 < utf8.size(); ++i) {
    const bool ends_plane = byte(i + 1) == 0xBF && (byte(i + 2) == 0xBE || byte(i + 2) == 0xBF);
    if (byte(i) == 0xEF && ends_plane)
      return true;
    if (byte(i) == 0xEF && byte(i + 1) == 0xB7 && byte(i + 2) >= 0x90 && byte(i + 2) <= 0xAF)
      return true;
    if (i > 0 && byte(i - 1) >= 0xF0 && (byte(i) & 0x0F) == 0x0F && ends_plane)
      return true;
  }
  return false;
}

std::string place(const std::string& name, const YAML::Mark& mark) {
  return fmt::format("{}, line {}, column {}", name, mark.line + 1, mark.column + 1);
}

/// Handler of the parser's events. Keeps only keys and words, so that memory is limited by the size
/// of the file.
class collector final : public YAML::EventHandler {
 public:
  explicit collector(std::string name) : name_(std::move(name)) {}

  configuration take() { return std::move(out_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark& mark, const std::string& anchor) override {
    refuse(mark, fmt::format("&{}: anchors are not supported; write the value itself", anchor));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not supported; write the value itself");
  }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (depth_ == 0)
      return;  // an empty file
    if (key_)
      refuse(mark, fmt::format("'{}' has no value; give one, or leave the key out", *key_));
    refuse(mark, "a key is empty; give the name of a flag without its dashes");
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t,
                const std::string& value) override {
    if (tag == binary_tag && key_)
      return add(mark, bytes_of(mark, value));
    require_no_tag(mark, tag);
    if (first_wrong_byte(value) != std::string::npos)  // an escape can encode such a byte
      refuse(mark, "an escape in the value is not valid text; write the character itself");
    if (has_no_character(value))
      refuse(mark,
             "the value has a byte order mark or another code point that is not a character; "
             "remove it");
    if (depth_ == 0)
      refuse_shape(mark);
    if (!key_)
      return begin(mark, value);
    add(mark, value);
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    require_no_tag(mark, tag);
    if (depth_ == 0)
      refuse_shape(mark);
    if (!key_)
      refuse(mark, "a list cannot be a key; give the name of a flag without its dashes");
    if (out_.entries.back().list)
      refuse(mark, fmt::format("'{}' has a list in a list; write one list of its values", *key_));
    out_.entries.back().list = true;
    out_.entries.back().where = place(name_, mark);
  }
  void OnSequenceEnd() override { key_.reset(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    require_no_tag(mark, tag);
    if (depth_++ > 0)
      refuse(mark,
             fmt::format("'{}' has keys below it; a configuration is flat: one line per flag",
                         key_.value_or("a key")));
  }
  void OnMapEnd() override { --depth_; }

 private:
  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& why) const {
    throw usage_error("{}: {}", place(name_, mark), why);
  }
  [[noreturn]] void refuse_shape(const YAML::Mark& mark) const {
    refuse(mark, "a configuration is lines of the form flag: value, as num-layers: 24");
  }
  void require_no_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag != "" && tag != "?" && tag != "!")
      refuse(mark, fmt::format("the tag '{}' is not supported; leave it out", tag));
  }

  void begin(const YAML::Mark& mark, const std::string& word) {
    if (word.starts_with("-"))
      refuse(mark, fmt::format("'{}': leave out the dashes", word));
    const auto key = key_of("--" + word);
    const auto [before, is_new] = places_.emplace(key, place(name_, mark));
    if (!is_new)
      refuse(mark,
             fmt::format("'{}' is given twice, first at {}; leave one out", word, before->second));
    out_.entries.push_back({.key = key, .where = place(name_, mark)});
    key_ = word;
  }

  void add(const YAML::Mark& mark, std::string word) {
    auto& to = out_.entries.back();
    if (to.words.empty())
      to.where = place(name_, mark);
    to.words.push_back(std::move(word));
    if (!to.list)
      key_.reset();
  }

  std::string bytes_of(const YAML::Mark& mark, const std::string& base64) const {
    std::string out;
    try {
      out = runtime::from_base64(base64);
    } catch (const runtime::input_error& failure) {
      refuse(mark, fmt::format("{}; !!binary needs base64", failure.what()));
    }
    if (out.find('\0') != std::string::npos)
      refuse(mark, "the value has a zero byte, which a flag cannot take");
    return out;
  }

  std::string name_;
  configuration out_;
  std::map<std::string, std::string> places_;  // by key
  int depth_ = 0;                              // open maps
  std::optional<std::string> key_;             // the key that waits for its value
};

/// Reads a pipe of the shell, <(command), which has no size and cannot be mapped.
std::string text_of_pipe(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string out(largest + 1, '\0');
  in.read(out.data(), std::streamsize(out.size()));
  out.resize(std::size_t(in.gcount()));
  if (in.bad() || (out.empty() && !in.is_open()))
    throw runtime::io_error("cannot read '{}'", file);
  return out;
}

/// Writes a word. yaml-cpp quotes it where YAML needs that, except for control characters. A word
/// that is not text, as a path may be, is written as base64.
void put(YAML::Emitter& out, const std::string& word) {
  if (first_wrong_byte(word) != std::string::npos || has_no_character(word)) {
    out << YAML::Binary(reinterpret_cast<const unsigned char*>(word.data()), word.size());
    return;
  }
  const auto control = [](char c) { return (c >= 0 && c < ' ') || c == 127; };
  if (std::any_of(word.begin(), word.end(), control))
    out << YAML::DoubleQuoted;
  out << word;
}

std::string value_text(const setting& x) {
  if (x.flag.most == 0)
    return "true";
  YAML::Emitter out;
  if (x.flag.most > 1)
    out << YAML::Flow << YAML::BeginSeq;
  for (const auto& word : x.words)
    put(out, word);
  if (x.flag.most > 1)
    out << YAML::EndSeq;
  return out.c_str();
}

}  // namespace

std::string key_of(std::string_view flag) {
  std::string out(flag.substr(flag.starts_with("--") ? 2 : 0));
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

configuration parse_configuration(const std::string& text, const std::string& name) {
  if (text.size() > largest)
    throw usage_error(
        "{} has {} bytes; a configuration has at most {}", name, text.size(), largest);
  if (const auto bad = first_wrong_byte(text); bad != std::string::npos)
    throw usage_error("{} is not UTF-8 text: byte {} is wrong; save it as UTF-8", name, bad);
  std::istringstream in(text);
  try {
    YAML::Parser parser(in);
    collector found(name);
    parser.HandleNextDocument(found);
    collector second(name);
    if (parser.HandleNextDocument(second))
      throw usage_error("{} has a second document after ---; write one file per document", name);
    return found.take();
  } catch (const YAML::Exception& failure) {
    throw usage_error("{}: this is not YAML: {}", place(name, failure.mark), failure.msg);
  }
}

configuration read_configuration(const std::string& file) {
  if (file == "-")
    return parse_configuration(read_standard_input(), "standard input");
  std::error_code failure;
  const auto text
      = std::filesystem::is_fifo(file, failure) ? text_of_pipe(file) : runtime::read_text(file);
  return parse_configuration(text, fmt::format("'{}'", file));
}

void merge(configuration& into, configuration later) {
  std::set<std::string_view> keys;
  for (const auto& entry : later.entries)
    keys.insert(entry.key);
  std::erase_if(into.entries, [&](const auto& before) { return keys.contains(before.key); });
  into.entries.insert(into.entries.end(),
                      std::make_move_iterator(later.entries.begin()),
                      std::make_move_iterator(later.entries.end()));
}

std::vector<std::string> words_for(const configured_flag& entry, const flag_description& flag) {
  if (flag.most <= 1 && entry.list)
    throw usage_error("{} takes one value, but this is a list: write it without brackets",
                      flag.name);
  if (flag.most == 0 && entry.words.front() != "true" && entry.words.front() != "false")
    throw usage_error(
        "{} '{}': the flag is on or off; give true or false", flag.name, entry.words.front());
  if (flag.least > 1 && !entry.list)
    throw usage_error(
        "{} takes {} values: write them as a list, [{}]", flag.name, flag.least, flag.type);
  return entry.words;
}

std::string configuration_text(const std::vector<setting>& settings,
                               const std::vector<std::string>& about) {
  std::string out;
  for (const auto& line : about) {
    out += "# ";
    for (const char c : line)  // a path may have line ends; the rest must stay a comment
      out += c == '\n' || c == '\r' ? std::string("\n# ") : std::string(1, c);
    out += "\n";
  }
  std::string group;
  for (const auto& x : settings) {
    if (x.group != group)
      out += fmt::format("\n# {}\n", group = x.group);
    const auto line = fmt::format("{}: {}", x.flag.name.substr(2), value_text(x));
    std::istringstream help(wrapped_lines(full_help(x.flag), 0, 96));
    for (std::string comment; std::getline(help, comment);)
      out += "#   " + comment + "\n";
    out += line + "\n";
  }
  return out;
}

}  // namespace troupe::command
