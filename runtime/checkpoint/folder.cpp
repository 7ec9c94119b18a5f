#include "runtime/checkpoint/folder.hpp"

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view iteration_prefix = "iter_";
constexpr std::string_view generation_mark = ".generation-", attempt_mark = ".attempt-",
                           by_mark = ".by-", partial_mark = ".partial";
constexpr std::string_view replaced_mark = ".replaced", removed_mark = ".removed";

template <class Number>
std::optional<Number> number_from(std::string_view digits) {
  Number x = {};
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), x);
  if (failure != std::errc{} || end != digits.data() + digits.size() || digits.starts_with('-'))
    return std::nullopt;
  return x;
}

/// Parses exactly ".iter_0000100<mark>".
std::optional<std::int64_t> hidden_iteration(std::string_view name, std::string_view mark) {
  if (!name.starts_with('.') || !name.ends_with(mark))
    return std::nullopt;
  return iteration_of_folder(name.substr(1, name.size() - 1 - mark.size()));
}

bool is_staging(std::string_view name) {
  const auto mark = name.find(generation_mark);
  if (mark == std::string_view::npos || !name.ends_with(partial_mark))
    return false;
  const auto begin = mark + generation_mark.size();
  const auto end = name.size() - partial_mark.size();
  if (begin >= end || !hidden_iteration(name.substr(0, mark), ""))
    return false;
  auto numbers = name.substr(begin, end - begin);
  numbers = numbers.substr(0, numbers.find(by_mark));
  const auto attempt = numbers.find(attempt_mark);
  if (attempt != std::string_view::npos
      && !number_from<std::uint64_t>(numbers.substr(attempt + attempt_mark.size())))
    return false;
  return number_from<std::uint64_t>(numbers.substr(0, attempt)).has_value();
}

bool is_partial_tracker(std::string_view name) {
  const auto mark = std::string(tracker_file) + ".partial-";
  return name.starts_with(mark) && number_from<std::uint64_t>(name.substr(mark.size()));
}

/// Lists the entries of `dir` of one type, without following links. Throws io_error.
std::vector<fs::path> entries_in(const fs::path& dir, fs::file_type type) {
  std::vector<fs::path> out;
  std::error_code failure;
  if (!fs::exists(dir, failure) && !failure)
    return out;
  for (fs::directory_iterator at(dir, failure), end; !failure && at != end; at.increment(failure))
    if (at->symlink_status().type() == type)
      out.push_back(at->path());
  if (failure)
    throw io_error("cannot list the folder '{}': {}; check its owner and permissions",
                   dir.string(),
                   failure.message());
  return out;
}

}  // namespace

std::string iteration_folder(std::int64_t iteration) {
  return fmt::format("{}{:07}", iteration_prefix, iteration);
}

std::optional<std::int64_t> iteration_of_folder(std::string_view name) {
  if (!name.starts_with(iteration_prefix))
    return std::nullopt;
  const auto iteration = number_from<std::int64_t>(name.substr(iteration_prefix.size()));
  if (!iteration || iteration_folder(*iteration) != name)
    return std::nullopt;
  return iteration;
}

std::string shard_file(std::string_view kind, int index, int count) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", kind, index, count);
}

std::string staging_folder(std::int64_t iteration,
                           generation_id generation,
                           std::uint64_t attempt,
                           std::string_view by) {
  return fmt::format(".{}{}{}{}{}{}",
                     iteration_folder(iteration),
                     generation_mark,
                     value(generation),
                     attempt > 0 ? fmt::format("{}{}", attempt_mark, attempt) : "",
                     by.empty() ? "" : fmt::format("{}{}", by_mark, by),
                     partial_mark);
}

std::string replaced_folder(std::int64_t iteration) {
  return fmt::format(".{}{}", iteration_folder(iteration), replaced_mark);
}

std::string removed_folder(std::int64_t iteration) {
  return fmt::format(".{}{}", iteration_folder(iteration), removed_mark);
}

std::vector<std::int64_t> iterations_in(const fs::path& dir) {
  std::vector<std::int64_t> out;
  for (const auto& folder : entries_in(dir, fs::file_type::directory))
    if (const auto iteration = iteration_of_folder(folder.filename().string()))
      out.push_back(*iteration);
  std::sort(out.rbegin(), out.rend());
  return out;
}

std::optional<std::int64_t> tracked_iteration(const fs::path& dir) {
  const auto path = dir / tracker_file;
  std::error_code failure;
  if (!fs::exists(path, failure) && !failure)
    return std::nullopt;
  const auto text = read_text(path);
  const auto iteration = number_from<std::int64_t>(
      std::string_view(text).substr(0, text.find_last_not_of(" \t\r\n") + 1));
  if (!iteration)
    throw input_error(
        "'{}' should contain an iteration, but contains '{}'; write the iteration to resume from "
        "into it",
        path.string(),
        text.substr(0, 40));
  return iteration;
}

void clear_remains(const fs::path& dir) {
  for (const auto& file : entries_in(dir, fs::file_type::regular))
    if (is_partial_tracker(file.filename().string()))
      remove_all_of(file);
  for (const auto& folder : entries_in(dir, fs::file_type::directory)) {
    const auto name = folder.filename().string();
    const auto replaced = hidden_iteration(name, replaced_mark);
    std::error_code failure;
    if (replaced && !fs::exists(dir / iteration_folder(*replaced), failure) && !failure)
      rename_durably(folder, dir / iteration_folder(*replaced));
    else if (replaced || is_staging(name) || hidden_iteration(name, removed_mark))
      remove_all_of(folder);
  }
}

void rename_durably(const fs::path& from, const fs::path& to) {
  std::error_code failure;
  fs::rename(from, to, failure);
  if (failure)
    throw io_error("cannot rename '{}' to '{}': {}; check the permissions of the folder",
                   from.string(),
                   to.string(),
                   failure.message());
  sync_folder(to.parent_path());
}

void remove_all_of(const fs::path& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  if (failure)
    throw io_error("cannot remove '{}': {}; check its owner and permissions",
                   path.string(),
                   failure.message());
}

}  // namespace troupe::runtime
