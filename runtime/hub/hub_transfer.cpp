#include "runtime/hub/hub_transfer.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/git_hash.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/part_file.hpp"
#include "runtime/hub/hub_failure.hpp"
#include "runtime/object/object_url.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr int most_failures = 5;                                  // in a row
constexpr std::uint64_t progress_bytes = std::uint64_t(1) << 20;  // received bytes that end the row

void pause_after(int failures) {
  sleep_for(std::chrono::milliseconds(100) * (1 << failures));
}

/// Asks until the answer is a success or a permanent error.
template <class Ask>
hub_answer asked_again(const Ask& ask, int most) {
  for (int failures = 1;; ++failures) {
    auto out = ask();
    if (!may_succeed_later(out) || failures >= most)
      return out;
    pause_after(failures);
  }
}

/// The ETag without quotes and weakness.
std::string bare_etag(std::string_view text) {
  if (text.starts_with("W/"))
    text.remove_prefix(2);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = text.substr(1, text.size() - 2);
  return std::string(text);
}

bool is_hash(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t out = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), out);
  return wrong == std::errc() && end == text.data() + text.size() && !text.empty()
             ? std::optional(out)
             : std::nullopt;
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code failure;
  const auto out = fs::file_size(file, failure);
  return failure ? 0 : out;
}

/// The hash of a file of the kind that `etag` is.
std::string hash_like(const std::string& etag, const fs::path& file) {
  const mapped_file content(file);
  const auto bytes = content.bytes();
  std::string out;
  if (etag.size() == 64) {
    sha256 hash;
    hash.add(bytes.data(), bytes.size());
    out = hash.hex();
  } else {
    out = git_hash(bytes);
  }
  content.require_intact();
  return out;
}

}  // namespace

std::string hub_transfer::path_of(const std::string& commit, const std::string& file) const {
  return fmt::format("/{}/resolve/{}/{}", name_.repository, commit, percent_encoded(file));
}

hub_answer hub_transfer::model(const std::string& path, bool optional) {
  const auto out
      = asked_again([&] { return connection_.read(path); }, optional ? 1 : most_failures);
  if (out.status != 200 || !out.failure.empty())
    if (!optional || !may_succeed_later(out))
      refuse_answer(out, name_, "", connection_.service());
  return out;
}

hub_file hub_transfer::about(const std::string& commit, const std::string& file) {
  const auto path = path_of(commit, file);
  const auto said = asked_again([&] { return connection_.head(path); }, most_failures);
  const bool is_linked = !said.linked_etag.empty();
  if (!said.failure.empty() || said.status >= 400)
    refuse_answer(said, name_, file, connection_.service());
  const auto etag = bare_etag(is_linked ? said.linked_etag : said.etag);
  const auto size
      = number_in(is_linked && !said.linked_size.empty() ? said.linked_size : said.length);
  if (!is_hash(etag) || !size)
    throw io_error(
        "cannot download '{}': {} does not announce the hash and size of its '{}', so the bytes "
        "cannot be verified; use another HF_ENDPOINT",
        to_string(name_),
        connection_.service().endpoint,
        file);
  return {file, etag, *size};
}

std::uint64_t hub_transfer::received(const hub_file& file) const {
  std::error_code failure;
  if (fs::exists(cache_.blob(file.etag), failure))
    return file.size;
  const auto part = size_of(cache_.part(file.etag));
  return part <= file.size ? part : 0;
}

void hub_transfer::receive(const std::string& path,
                           const hub_file& file,
                           const std::function<void(std::uint64_t)>& advance) {
  const auto part = cache_.part(file.etag);
  auto have = received(file);
  part_file(part, have).sync();
  for (int failures = 0; have < file.size;) {
    std::optional<part_file> to;
    const auto answer = connection_.read(
        path, have, [&](const hub_answer& begun, std::string_view bytes) {
          if (!to) {
            const bool goes_on = begun.status == 206
                                 && begun.content_range.starts_with(fmt::format("bytes {}-", have));
            to.emplace(part, goes_on ? have : 0);
          }
          if (bytes.size() > file.size - to->size())
            throw io_error("cannot download '{}': its '{}' is longer than the {} bytes announced",
                           to_string(name_),
                           file.name,
                           file.size);
          to->write(bytes.data(), bytes.size());
          advance(to->size());
        });
    if (to)
      to->sync();
    else if (answer.status == 416)
      part_file(part, 0).sync();
    const auto now = size_of(part);
    failures = now >= have + progress_bytes ? 0 : failures + 1;
    have = now;
    if (have == file.size)
      break;
    const bool cut_off = answer.failure.empty() && (answer.status == 200 || answer.status == 206);
    if (failures >= most_failures
        || (!cut_off && answer.status != 416 && !may_succeed_later(answer)))
      refuse_answer(answer, name_, file.name, connection_.service());
    pause_after(failures);
  }
}

void hub_transfer::fetch(const std::string& commit,
                         const hub_file& file,
                         const hub_notes& note,
                         const std::function<void(std::uint64_t)>& advance) {
  const auto blob = cache_.blob(file.etag), part = cache_.part(file.etag);
  make_folder(blob.parent_path());
  const auto work = [&] {
    std::error_code failure;
    for (bool resumed = received(file) > 0; !fs::exists(blob, failure); resumed = false) {
      receive(path_of(commit, file.name), file, advance);
      if (const auto hash = hash_like(file.etag, part); hash == file.etag)  // DOWNLOAD-2
        rename_part(part, blob);
      else {
        remove_file(part);
        if (!resumed)  // otherwise the older bytes may be of something else
          throw io_error(
              "cannot download '{}': the received '{}' has the hash {}, not {}, so it was removed; "
              "try again, or check HF_ENDPOINT ({})",
              to_string(name_),
              file.name,
              hash,
              file.etag,
              connection_.service().endpoint);
      }
    }
  };
  cache_.alone(
      file.etag,
      [&] { note(fmt::format("another process downloads '{}': waiting for it", file.name)); },
      work);
  advance(file.size);
  cache_.link(commit, file.name, file.etag);
}

}  // namespace troupe::runtime
