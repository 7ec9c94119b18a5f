#include "runtime/inference/vector_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"

#include <bit>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t header_bytes = 128;

std::filesystem::path partial(std::filesystem::path path) {
  return path += ".partial";
}

std::filesystem::path with_ending(std::filesystem::path path, const char* ending) {
  return path.replace_extension(ending);
}

}  // namespace

std::string npy_header(std::int64_t rows, std::int64_t width) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::size_t before = 10;  // magic, version and the length of the dictionary
  auto out
      = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, width);
  out.resize(header_bytes - before - 1, ' ');
  out += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + char(out.size()) + '\0' + out;
}

vector_file::vector_file(std::filesystem::path path,
                         std::int64_t rows,
                         std::int64_t width,
                         nlohmann::json identity,
                         bool resume)
    : path_(std::move(path)),
      index_(with_ending(path_, ".jsonl")),
      journal_(with_ending(path_, ".journal")),
      lock_(path_, "write the vectors"),
      rows_(rows),
      width_(width),
      identity_(std::move(identity)) {
  const auto found = interrupted(resume);
  if (found)
    progress_ = *found;
  else
    remove_file(journal_);  // is not true of the files that begin here
  if (found && progress_.rows == rows_)
    return;
  const auto bytes = header_bytes + std::uint64_t(progress_.rows * width_) * sizeof(float);
  vectors_.emplace(partial(path_), found ? bytes : 0);
  lines_.emplace(partial(index_), progress_.index_bytes);
  if (!found) {
    const auto header = npy_header(rows_, width_);
    vectors_->write(header.data(), header.size());
    vectors_->sync();
    write_journal();
  }
}

std::optional<vector_progress> vector_file::interrupted(bool resume) const {
  std::error_code failure;
  if (!resume || !std::filesystem::exists(journal_, failure))
    return {};
  const auto where = fmt::format("'{}'", journal_.string());
  const auto x = parse_json(read_text(journal_), where);
  const auto count = [&](const char* key) { return count_member(x, key, where); };
  const vector_progress out{.rows = count("rows"),
                            .cut = count("cut"),
                            .input = std::uint64_t(count("input")),
                            .at = {std::uint64_t(count("byte")), std::uint64_t(count("line"))},
                            .index_bytes = std::uint64_t(count("index_bytes"))};
  if (out.rows == 0)  // also after an error in the first texts, which are mended now
    return {};
  if (object_member(x, "identity", where) != identity_)
    throw input_error(
        "cannot continue '{}': an interrupted program wrote it with other inputs or settings. Give "
        "the same command again, or remove '{}' to begin anew",
        path_.string(),
        journal_.string());
  if (out.rows > rows_)
    throw input_error(
        "cannot continue '{}': its journal '{}' has {} of {} rows; remove the journal to begin "
        "anew",
        path_.string(),
        journal_.string(),
        out.rows,
        rows_);
  return out;
}

void vector_file::write_journal() const {
  const nlohmann::json out = {{"identity", identity_},
                              {"rows", progress_.rows},
                              {"cut", progress_.cut},
                              {"input", progress_.input},
                              {"byte", progress_.at.byte},
                              {"line", progress_.at.line},
                              {"index_bytes", progress_.index_bytes}};
  write_text(journal_, json_text(out) + "\n");
}

void vector_file::add(std::span<const float> vectors,
                      const std::string& index,
                      vector_progress progress) {
  vectors_->write(vectors.data(), vectors.size_bytes());
  lines_->write(index.data(), index.size());
  vectors_->sync();
  lines_->sync();
  progress.index_bytes = lines_->size();
  progress_ = progress;
  write_journal();
}

void vector_file::finish() {
  ensure(progress_.rows == rows_, "VECTORS-1: a finished file has all rows");
  vectors_.reset();  // all bytes are durable
  lines_.reset();
  std::error_code failure;
  for (const auto& name : {index_, path_})  // a killed program may have renamed the first
    if (std::filesystem::exists(partial(name), failure) || !std::filesystem::exists(name, failure))
      rename_part(partial(name), name);
  remove_file(journal_);
}

}  // namespace troupe::runtime
