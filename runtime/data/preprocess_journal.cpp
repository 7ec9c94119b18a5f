#include "runtime/data/preprocess_journal.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"

namespace troupe::runtime {
namespace {

using nlohmann::json;

constexpr int journal_format = 1;

json to_json(const preprocess_progress& x) {
  json keys = json::array();
  for (const auto& one : x.by_key)
    keys.push_back({{"documents", one.dataset.documents},
                    {"sequences", one.dataset.sequences},
                    {"tokens", one.dataset.tokens},
                    {"bytes", one.bytes},
                    {"empty_documents", one.empty_documents}});
  return {{"input", x.input},
          {"byte", x.at.byte},
          {"line", x.at.line},
          {"read", x.read},
          {"by_key", std::move(keys)}};
}

/// A size or a position, below 2^56 so that products do not overflow.
std::int64_t count_of(const json& x, const char* name) {
  const auto& found = x.at(name);
  if (!found.is_number_unsigned() || found.get<std::uint64_t>() >> 56 != 0)
    throw input_error("it is damaged: its {} is {}", name, json_text(found));
  return found.get<std::int64_t>();
}

preprocess_progress progress_of(const json& x, std::size_t inputs, std::size_t keys) {
  preprocess_progress out{.input = std::uint64_t(count_of(x, "input")),
                          .at = {.byte = std::uint64_t(count_of(x, "byte")),
                                 .line = std::uint64_t(count_of(x, "line"))},
                          .read = x.at("read")};
  if (out.input >= inputs || x.at("by_key").size() != keys)
    throw input_error("it is damaged: it does not describe {} inputs and {} keys", inputs, keys);
  for (const auto& one : x.at("by_key"))
    out.by_key.push_back({.dataset = {.documents = count_of(one, "documents"),
                                      .sequences = count_of(one, "sequences"),
                                      .tokens = count_of(one, "tokens")},
                          .bytes = std::uint64_t(count_of(one, "bytes")),
                          .empty_documents = count_of(one, "empty_documents")});
  return out;
}

bool has_begun(const preprocess_progress& x) {
  return x.read || x.input > 0 || x.at.byte > 0;
}

/// The names of the fields that differ.
std::string differences(const json& now, const json& then) {
  std::string out;
  for (const auto& [key, value] : now.items())
    if (!then.is_object() || !then.contains(key) || then[key] != value)
      out += (out.empty() ? "" : ", ") + key;
  return out;
}

}  // namespace

preprocess_journal::preprocess_journal(const std::filesystem::path& output_prefix, json identity)
    : path_(output_prefix.string() + ".journal"), identity_(std::move(identity)) {}

std::optional<preprocess_progress> preprocess_journal::read() const {
  if (!std::filesystem::exists(path_))
    return std::nullopt;
  try {
    const auto all = json_value(read_text(path_));
    if (all.at("format") != journal_format)
      throw input_error("it is of format {}, but this program writes {}",
                        json_text(all.at("format")),
                        journal_format);
    const auto& then = all.at("identity");
    auto out
        = progress_of(all.at("progress"), then.at("inputs").size(), then.at("json_keys").size());
    if (!has_begun(out))
      return std::nullopt;
    if (then != identity_)
      throw input_error("it was made with another {}", differences(identity_, then));
    return out;
  } catch (const json::exception&) {
    throw input_error("cannot resume from '{}': it is damaged; remove it to start again",
                      path_.string());
  } catch (const input_error& e) {
    throw input_error(
        "cannot resume from '{}', the journal of an unfinished run: {}; repeat the command of that "
        "run, or remove the file to start again",
        path_.string(),
        e.what());
  }
}

json preprocess_journal::identity_left() const {
  if (!std::filesystem::exists(path_))
    return nullptr;
  const auto all = json_value_or_discarded(read_text(path_));
  return all.is_object() ? all.value("identity", json()) : json();
}

void preprocess_journal::write(const preprocess_progress& progress) const {
  const auto text = json_text(
      json{{"format", journal_format}, {"identity", identity_}, {"progress", to_json(progress)}},
      1);
  const std::filesystem::path next = path_.string() + ".partial";
  {
    part_file out(next, 0);
    out.write(text.data(), text.size());
    out.sync();
  }
  rename_part(next, path_);
}

void preprocess_journal::remove() const {
  remove_file(path_.string() + ".partial");
  remove_file(path_);
}

}  // namespace troupe::runtime
