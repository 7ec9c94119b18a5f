#include "runtime/tokenizer/bpe_vocabulary.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/byte_alphabet.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace troupe::runtime {
namespace {

using json = nlohmann::json;
using token_ids = std::unordered_map<std::string, std::int32_t>;

constexpr std::string_view version_line = "#version: 0.2";
constexpr std::string_view blanks = " \t\n\v\f\r";

json parse_vocabulary(const std::filesystem::path& file) {
  const auto content = read_text(file);
  if (content.find_first_not_of(blanks) == std::string_view::npos)
    throw input_error(
        "cannot read the vocabulary '{}': it is empty; expected a JSON object of token: id",
        file.string());
  std::unordered_set<std::string> seen;
  const auto refuse_twice = [&](int depth, json::parse_event_t event, const json& parsed) {
    if (depth == 1 && event == json::parse_event_t::key
        && !seen.insert(parsed.get<std::string>()).second)
      throw input_error("cannot read the vocabulary '{}': token \"{}\" occurs twice",
                        file.string(),
                        parsed.get<std::string>());
    return true;
  };
  try {
    auto parsed = json_value(content, refuse_twice);
    if (!parsed.is_object())
      throw input_error(
          "cannot read the vocabulary '{}': it is a JSON {}, not an object of token: id",
          file.string(),
          parsed.type_name());
    return parsed;
  } catch (const json::exception& failure) {
    throw input_error(
        "cannot read the vocabulary '{}': it is not JSON: {}; was it downloaded whole?",
        file.string(),
        json_complaint(failure));
  }
}

std::vector<std::string> load_tokens(const std::filesystem::path& file) {
  const auto parsed = parse_vocabulary(file);
  std::vector<std::string> tokens(parsed.size());
  std::vector<bool> taken(parsed.size());
  for (const auto& [token, id] : parsed.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= parsed.size())
      throw input_error(
          "cannot read the vocabulary '{}': token \"{}\" has the id {}; the ids of {} tokens must "
          "be the whole numbers 0 to {}, each once",
          file.string(),
          token,
          json_text(id),
          parsed.size(),
          parsed.size() - 1);
    const auto place = id.get<std::size_t>();
    if (taken[place])
      throw input_error(
          "cannot read the vocabulary '{}': tokens \"{}\" and \"{}\" have the same id {}",
          file.string(),
          tokens[place],
          token,
          place);
    taken[place] = true;
    tokens[place] = token;
  }
  return tokens;
}

std::int32_t required(const token_ids& ids,
                      const std::string& token,
                      const std::string& what,
                      const std::filesystem::path& file) {
  const auto found = ids.find(token);
  if (found == ids.end())
    throw input_error(
        "cannot use the vocabulary '{}': it has no token \"{}\" for {}; does it belong to a "
        "byte-level BPE?",
        file.string(),
        token,
        what);
  return found->second;
}

/// Parses one line of merges.txt. `line` counts from 1.
bpe_merge parse_merge(std::string_view text,
                      std::size_t line,
                      const token_ids& ids,
                      const std::filesystem::path& file) {
  const auto space = text.find(' ');
  if (space == 0 || space == text.npos || space + 1 == text.size()
      || text.find(' ', space + 1) != text.npos)
    throw input_error(
        "cannot read the merges '{}': line {} is \"{}\"; expected two tokens with one space "
        "between",
        file.string(),
        line,
        text.substr(0, 80));
  const auto id = [&](const std::string& token) {
    const auto found = ids.find(token);
    if (found == ids.end())
      throw input_error(
          "cannot read the merges '{}': line {} is \"{}\", but the vocabulary has no token \"{}\"; "
          "do the two files belong together?",
          file.string(),
          line,
          text.substr(0, 80),
          token);
    return found->second;
  };
  const std::string left(text.substr(0, space));
  const std::string right(text.substr(space + 1));
  return {id(left), id(right), id(left + right)};
}

std::vector<bpe_merge> load_merges(const std::filesystem::path& file, const token_ids& ids) {
  const auto content = read_text(file);
  std::string_view rest = content;
  if (rest.find_first_not_of(blanks) == rest.npos)
    throw input_error(
        "cannot read the merges '{}': it is empty; expected a line '{}' and a merge on each line",
        file.string(),
        version_line);
  std::vector<bpe_merge> merges;
  std::unordered_map<std::uint64_t, std::size_t> line_of;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const auto end = std::min(rest.find('\n'), rest.size());
    auto text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!text.empty() && text.back() == '\r')
      text.remove_suffix(1);
    const bool last_blank = text.empty() && rest.empty();
    if (last_blank || (line == 1 && text.starts_with("#version")))
      continue;
    const auto merge = parse_merge(text, line, ids, file);
    const auto pair = std::uint64_t(merge.left) << 32 | std::uint32_t(merge.right);
    const auto [first, fresh] = line_of.emplace(pair, line);
    if (!fresh)
      throw input_error("cannot read the merges '{}': line {} repeats line {}, \"{}\"",
                        file.string(),
                        line,
                        first->second,
                        text.substr(0, 80));
    merges.push_back(merge);
  }
  return merges;
}

}  // namespace

bpe_vocabulary load_bpe_vocabulary(const std::filesystem::path& vocab_file,
                                   const std::filesystem::path& merge_file) {
  bpe_vocabulary loaded;
  loaded.tokens = load_tokens(vocab_file);
  token_ids ids;
  for (std::size_t id = 0; id < loaded.tokens.size(); ++id)
    ids.emplace(loaded.tokens[id], static_cast<std::int32_t>(id));
  for (unsigned byte = 0; byte < 256; ++byte)
    loaded.byte_ids[byte] = required(ids,
                                     std::string(character_of(std::uint8_t(byte))),
                                     fmt::format("byte 0x{:02X}", byte),
                                     vocab_file);
  loaded.end_of_document = required(ids, end_of_document_text, "the end of a document", vocab_file);
  loaded.merges = load_merges(merge_file, ids);
  return loaded;
}

void save_bpe_vocabulary(const bpe_vocabulary& vocabulary, const std::filesystem::path& folder) {
  make_folder(folder);
  file_writer merges(folder / "merges.txt");
  merges.write(version_line);
  for (const auto& merge : vocabulary.merges)
    merges.write(fmt::format("\n{} {}",
                             vocabulary.tokens[std::size_t(merge.left)],
                             vocabulary.tokens[std::size_t(merge.right)]));
  merges.write("\n");
  merges.commit();
  file_writer tokens(folder / "vocab.json");
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id)
    tokens.write(
        fmt::format("{}{}: {}", id == 0 ? "{" : ", ", json_text(json(vocabulary.tokens[id])), id));
  tokens.write("}\n");
  tokens.commit();
}

}  // namespace troupe::runtime
