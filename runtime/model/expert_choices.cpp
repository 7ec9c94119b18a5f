#include "runtime/model/expert_choices.hpp"

#include "runtime/core/error.hpp"
#include "runtime/model/choice_texts.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

namespace troupe::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr std::array<char, 8> magic = {'T', 'R', 'C', 'H', 'O', 'I', 'C', 'E'};
constexpr std::uint32_t version = 1;
constexpr const char* file_ending = ".choices";

/// The beginning of a file. The words of its samples follow: expert + 1 of each choice, or 0.
struct header {
  std::array<char, 8> magic;
  std::uint32_t version, experts, each, unused;
  std::uint64_t positions;
};
constexpr std::size_t header_size = 32;
static_assert(sizeof(header) == header_size);

std::string header_of(const choice_rows& x) {
  const header out{magic,
                   version,
                   std::uint32_t(x.experts),
                   std::uint32_t(x.each),
                   0,
                   std::uint64_t(x.positions)};
  return {reinterpret_cast<const char*>(&out), sizeof(out)};
}

std::filesystem::path path_of(const std::filesystem::path& folder, const choice_rows& of) {
  return folder / (of.router + file_ending);
}

header header_in(const std::filesystem::path& path, std::string_view text) {
  header found{};
  if (text.size() >= header_size)
    std::memcpy(&found, text.data(), header_size);
  if (found.magic != magic)
    throw input_error(
        "cannot replay '{}': the file does not begin like choices of experts; name a folder that "
        "`expert_choices.record` has filled",
        path.string());
  if (found.version != version)
    throw input_error(
        "cannot replay '{}': the file has version {} of the format, and this build reads version "
        "{}; record the choices again",
        path.string(),
        found.version,
        version);
  return found;
}

void require_header(const std::filesystem::path& path,
                    std::string_view text,
                    const choice_rows& of) {
  const auto found = header_in(path, text);
  if (text.substr(0, header_size) != header_of(of))
    throw input_error(
        "cannot replay '{}': it has {} of {} experts for each of {} tokens of a sample, and the "
        "router of this run chooses {} of {} for each of {}; record the choices of such a model",
        path.string(),
        found.each,
        found.experts,
        found.positions,
        of.each,
        of.experts,
        of.positions);
}

/// Calls visit(sample, position, done, count) for the rows in each sample: `done` rows are in
/// samples before it.
template <class Visit>
void for_each_sample(const choice_rows& x, const Visit& visit) {
  for (std::int64_t done = 0, n = 0; done < x.count; done += n) {
    const auto row = x.first + done, position = row % x.positions;
    n = std::min(x.positions - position, x.count - done);
    visit(x.samples.at(std::size_t(row / x.positions)), position, done, n);
  }
}

}  // namespace

void require_choices(const std::filesystem::path& folder) {
  bool has_one = false;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    if (at->path().extension() == file_ending) {
      header_in(at->path(), mapped_file(at->path()).text());
      has_one = true;
    }
  if (!has_one)
    throw input_error(
        "`expert_choices.replay` '{}': {}; name a folder that `expert_choices.record` has filled",
        folder.string(),
        failure ? failure.message() : "the folder has no choices of experts");
  if (choice_texts::are_in(folder))
    choice_texts of(folder);
}

placed_file& choice_writer::file_of(const choice_rows& of) {
  auto& file = files_[of.router];
  if (file != nullptr)
    return *file;
  make_folder(folder_);
  auto opened = std::make_unique<placed_file>(path_of(folder_, of));
  const auto own = header_of(of), found = opened->beginning(header_size);
  if (!own.starts_with(found))
    throw input_error(
        "cannot record choices of experts in '{}': the file exists and belongs to another model, "
        "or to something else; name another folder as `expert_choices.record`",
        opened->path().string());
  if (found.size() < own.size())  // other processes write the same bytes
    opened->write(0, own.data(), own.size());
  file = std::move(opened);
  return *file;
}

void choice_writer::write(const recorded_choice& x) {
  const auto& rows = x.rows;
  ensure(std::int64_t(x.chosen.size()) == rows.count * rows.each,
         "CHOICES-1: a record has the choices of each of its rows");
  auto& file = file_of(rows);
  const auto row_bytes = std::uint64_t(rows.each) * sizeof(std::uint16_t);
  std::vector<std::uint16_t> words;
  for_each_sample(rows, [&](std::uint64_t sample, std::int64_t position, auto done, auto n) {
    constexpr auto largest = std::uint64_t(std::numeric_limits<std::int64_t>::max()) - header_size;
    if (sample >= largest / row_bytes / std::uint64_t(rows.positions))
      throw input_error(
          "cannot record choices of experts in '{}': the number {} of a sample is too large",
          file.path().string(),
          sample);
    const auto begin = x.chosen.begin() + done * rows.each;
    words.assign(begin, begin + n * rows.each);
    for (auto& word : words)
      ++word;
    const auto row = sample * std::uint64_t(rows.positions) + std::uint64_t(position);
    file.write(header_size + row * row_bytes, words.data(), words.size() * sizeof(std::uint16_t));
  });
}

const mapped_file& choice_reader::file_of(const choice_rows& of) {
  if (const auto found = files_.find(of.router); found != files_.end())
    return found->second;
  const auto path = path_of(folder_, of);
  std::error_code failure;
  if (!std::filesystem::exists(path, failure) && !failure)  // else mapped_file says why
    throw input_error(
        "cannot replay choices of experts: there is no '{}'; name a folder that "
        "`expert_choices.record` has filled in a run of this model",
        path.string());
  mapped_file file(path);
  require_header(path, file.text(), of);
  return files_.emplace(of.router, std::move(file)).first->second;
}

/// Reads rows of a file, and checks them.
class choice_reader::row_reader {
 public:
  row_reader(const mapped_file& file, const std::filesystem::path& path, const choice_rows& of)
      : bytes_(file.bytes().subspan(header_size)),
        path_(path),
        of_(of),
        last_row_(std::size_t(of.experts), -1) {
    choices.reserve(std::size_t(of.count * of.each));
  }

  void skip(std::int64_t rows) { choices.insert(choices.end(), std::size_t(rows * of_.each), -1); }

  /// Appends positions [first, first + n) of a sample.
  void take(std::uint64_t sample, std::int64_t first, std::int64_t n) {
    const auto row_bytes = std::size_t(of_.each) * sizeof(std::uint16_t);
    const auto rows = std::uint64_t(bytes_.size() / row_bytes), T = std::uint64_t(of_.positions);
    const auto lacks = [&] {
      return input_error(
          "cannot replay '{}': it lacks choices of sample {}; record as many samples as this run "
          "reads",
          path_.string(),
          sample);
    };
    if (sample > rows / T || sample * T + std::uint64_t(first + n) > rows)
      throw lacks();
    const auto* from = bytes_.data() + (sample * T + std::uint64_t(first)) * row_bytes;
    for (std::int64_t i = 0; i < n * of_.each; ++i, from += sizeof(std::uint16_t)) {
      std::uint16_t word = 0;
      std::memcpy(&word, from, sizeof(word));
      if (word == 0)
        throw lacks();
      const auto row = std::int64_t(choices.size()) / of_.each;
      if (word > of_.experts || std::exchange(last_row_[std::size_t(word - 1)], row) == row)
        throw input_error(
            "cannot replay '{}': it is damaged: token {} of sample {} has choice {}, which is "
            "above the last expert or has occurred before; restore or record it again",
            path_.string(),
            first + i / of_.each,
            sample,
            word - 1);
      choices.push_back(word - 1);
    }
  }

  std::vector<std::int32_t> choices;  ///< (rows so far, each)

 private:
  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
  const choice_rows& of_;
  std::vector<std::int64_t> last_row_;  ///< that chose the expert
};

choice_reader::choice_reader(std::filesystem::path folder) : folder_(std::move(folder)) {
  if (choice_texts::are_in(folder_))
    texts_ = std::make_unique<choice_texts>(folder_);
}

choice_reader::choice_reader(choice_reader&&) noexcept = default;
choice_reader::~choice_reader() = default;

void choice_reader::read_texts(const choice_rows& of, row_reader& by) {
  ensure(!of.texts.empty() && of.texts.back() == std::int32_t(of.tokens.size()),
         "CHOICES-3: choices by text are read with the tokens of the micro-batch");
  const auto end = of.first + of.count;
  for (std::size_t i = 0; i + 1 < of.texts.size(); ++i) {
    const std::int64_t begins = of.texts[i], ends = of.texts[i + 1];
    const auto from = std::max(begins, of.first), to = std::min(ends, end);
    if (from >= to)
      continue;
    const auto its = std::span(of.tokens).subspan(std::size_t(begins), std::size_t(ends - begins));
    const auto found = texts_->find(its);
    const bool padding = std::ranges::all_of(its, [&](auto x) { return x == its.front(); });
    if (!found && !padding)
      throw input_error(
          "cannot replay '{}': it has no text that this one of {} tokens begins with: {}{}; record "
          "the choices of the texts that this command reads, with the same tokenizer",
          folder_.string(),
          its.size(),
          fmt::join(its.first(std::min<std::size_t>(its.size(), 8)), " "),
          its.size() > 8 ? " ..." : "");
    const auto known = found ? std::clamp(begins + found->rows, from, to) : from;
    if (known > from)
      by.take(found->text, from - begins, known - from);
    by.skip(to - known);
  }
}

std::vector<std::int32_t> choice_reader::read(const choice_rows& of) {
  auto there = of;
  if (finds_texts())
    there.positions = texts_->positions();
  const auto path = path_of(folder_, of);
  const auto& file = file_of(there);
  row_reader by(file, path, there);
  if (finds_texts())
    read_texts(there, by);
  else
    for_each_sample(of, [&](std::uint64_t sample, std::int64_t position, auto, auto n) {
      by.take(sample, position, n);
    });
  file.require_intact();
  return std::move(by.choices);
}

}  // namespace troupe::runtime
