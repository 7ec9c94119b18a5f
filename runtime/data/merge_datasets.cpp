#include "runtime/data/merge_datasets.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/progress.hpp"
#include "runtime/data/conversation_files.hpp"
#include "runtime/data/dataset_manifest.hpp"
#include "runtime/data/dataset_parts.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_lock.hpp"
#include "runtime/file/file_reader.hpp"
#include "runtime/file/same_file.hpp"

#include <algorithm>
#include <set>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t bytes_at_once = std::size_t{1} << 20;
constexpr std::int64_t entries_at_once = std::int64_t{1} << 16;

std::vector<fs::path> datasets_of(const fs::path& folder) {
  std::set<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto extension = entry.path().extension();
    if (entry.is_regular_file() && (extension == ".bin" || extension == ".idx"))
      out.insert(fs::path(entry.path()).replace_extension());
  }
  if (out.empty())
    throw input_error(
        "there is no data set in the folder '{}': a data set is two files, <prefix>.bin and "
        "<prefix>.idx",
        folder.string());
  for (const auto& prefix : out)
    if (out.contains(answers_prefix(prefix)))
      throw input_error(
          "cannot merge the data sets of the folder '{}': '{}' has the answers of '{}'; name the "
          "prefixes of the conversations, and merge those of their answers in the same order",
          folder.string(),
          answers_prefix(prefix).filename().string(),
          prefix.filename().string());
  return {out.begin(), out.end()};
}

void refuse_output_as_input(const fs::path& input, const fs::path& output) {
  for (const auto& path : {bin_path(output), idx_path(output)})
    for (const auto& from : {bin_path(input), idx_path(input)})
      if (name_one_file(path, from))
        throw input_error("cannot merge into '{}': it is the input '{}', too; give another output",
                          output.string(),
                          input.string());
}

/// The facts about all inputs, collected before the first write.
struct survey {
  merge_result found = {};
  std::optional<dataset_manifest> made_by = {};
};

void require_same_ids(const fs::path& first,
                      const std::optional<dataset_manifest>& of_first,
                      const fs::path& next,
                      const std::optional<dataset_manifest>& of_next) {
  if (of_first && of_next && have_other_ids(*of_first, *of_next))
    throw input_error(
        "cannot merge '{}' and '{}': they were written by different tokenizers, the first by a {}, "
        "the second by a {}; write one of them again. If equal ids have equal meanings, remove "
        "'{}', "
        "which names the tokenizer",
        first.string(),
        next.string(),
        to_text(*of_first),
        to_text(*of_next),
        manifest_path(next).string());
}

survey survey_of(const std::vector<fs::path>& prefixes, const merge_options& options) {
  survey out;
  std::optional<dataset_manifest> named;  // the first manifest
  fs::path named_by;
  bool same = true;
  for (const auto& prefix : prefixes) {
    options.stop.throw_if_cancelled();
    refuse_output_as_input(prefix, options.output_prefix);
    const indexed_dataset one(prefix);
    auto& all = out.found;
    if (all.datasets++ == 0)
      all.type = one.type();
    else if (one.type() != all.type)
      throw input_error(
          "cannot merge '{}' and '{}': tokens of the first are {}, of the second {}; write one of "
          "them again for a vocabulary of the other's size",
          prefixes.front().string(),
          prefix.string(),
          to_string(all.type),
          to_string(one.type()));
    all.documents += one.documents();
    all.sequences += one.sequences();
    all.tokens += one.tokens();
    if (all.sequences > most_sequences)
      throw input_error(
          "cannot merge {} data sets: up to '{}' they have {} sequences, the maximum is {}; train "
          "on "
          "a blend of them instead",
          prefixes.size(),
          prefix.string(),
          all.sequences,
          most_sequences);
    const auto manifest = read_manifest(prefix);
    require_same_ids(named_by, named, prefix, manifest);
    if (all.datasets == 1)
      out.made_by = manifest;
    same = same && manifest == out.made_by;
    if (manifest && (!named || family_of(named->tokenizer) == tokenizer_family::null)) {
      named = manifest;
      named_by = prefix;
    }
  }
  if (!same)
    out.made_by.reset();
  out.found.remembers_tokenizer = out.made_by.has_value();
  out.found.bytes = std::uint64_t(out.found.tokens) * size_of(out.found.type);
  return out;
}

/// Copies the surveyed data sets into parts.
class merge_run {
 public:
  merge_run(const merge_options& options, const survey& all)
      : options_(options),
        surveyed_(all.found),
        parts_(options.output_prefix, all.found.type, {}),
        bar_("merging", std::max<std::uint64_t>(all.found.bytes, 1), "B") {}

  void add(const fs::path& prefix) {
    const indexed_dataset from(prefix);
    require(from.type() == surveyed_.type, prefix);
    add_tokens(prefix, from);
    add_lengths(from);
    add_documents(from);
    from.require_intact();
  }

  dataset_progress finish() {
    parts_.sync();
    const auto& made = parts_.progress();
    require(made.documents == surveyed_.documents && made.sequences == surveyed_.sequences
                && made.tokens == surveyed_.tokens,
            options_.inputs.front());
    return made;
  }

 private:
  static void require(bool unchanged, const fs::path& prefix) {
    if (!unchanged)
      throw input_error("'{}' changed while it was merged: run it again", prefix.string());
  }

  void add_tokens(const fs::path& prefix, const indexed_dataset& from) {
    file_reader bin(bin_path(prefix));
    auto left = std::uint64_t(from.tokens()) * size_of(from.type());
    require(bin.size() == left, prefix);
    std::vector<char> bytes(bytes_at_once);
    while (left > 0) {
      options_.stop.throw_if_cancelled();
      const auto wanted = std::size_t(std::min<std::uint64_t>(left, bytes.size()));
      for (std::size_t filled = 0; filled < wanted;)
        filled += bin.read(bytes.data() + filled, wanted - filled);
      parts_.add_tokens({bytes.data(), wanted});
      left -= wanted;
      bar_.advance_to(done_ += wanted);
    }
  }

  void add_lengths(const indexed_dataset& from) {
    std::vector<std::int32_t> lengths;
    for (std::int64_t i = 0; i < from.sequences(); i += std::int64_t(lengths.size())) {
      lengths.resize(std::size_t(std::min(from.sequences() - i, entries_at_once)));
      for (std::size_t k = 0; k < lengths.size(); ++k)
        lengths[k] = from.length(i + std::int64_t(k));
      parts_.add_lengths(lengths);
    }
  }

  void add_documents(const indexed_dataset& from) {
    std::vector<std::int64_t> sequences;
    for (std::int64_t d = 0; d < from.documents(); d += std::int64_t(sequences.size())) {
      sequences.resize(std::size_t(std::min(from.documents() - d, entries_at_once)));
      for (std::size_t k = 0; k < sequences.size(); ++k)
        sequences[k] = from.document_begin(d + std::int64_t(k) + 1)
                       - from.document_begin(d + std::int64_t(k));
      parts_.add_documents(sequences);
    }
  }

  const merge_options& options_;
  const merge_result& surveyed_;
  dataset_parts parts_;
  progress_bar bar_;
  std::uint64_t done_ = 0;
};

}  // namespace

std::vector<fs::path> datasets_in(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> out;
  for (const auto& input : inputs) {
    std::error_code failure;
    // If "a" is a folder beside a.bin and a.idx, the name means the data set.
    if (!fs::is_directory(input, failure) || fs::exists(idx_path(input), failure)) {
      out.push_back(input);
      continue;
    }
    const auto found = datasets_of(input);
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

merge_result merge_datasets(const merge_options& options) {
  if (options.inputs.empty())
    throw input_error("cannot merge: there is no input");
  const auto& to = options.output_prefix;
  if (to.filename().empty())
    throw input_error("cannot merge into '{}': it must end in a name, not in a folder",
                      to.string());
  for (const auto& path : options.inputs)
    if (is_object_url(path.string()))
      throw input_error("cannot merge '{}': only local data sets can be merged; copy it to files",
                        path.string());
  if (is_object_url(to.string()))
    throw input_error("cannot merge into '{}': objects are only read; write files, and copy them",
                      to.string());
  const auto prefixes = datasets_in(options.inputs);
  const auto all = survey_of(prefixes, options);
  if (to.has_parent_path())
    make_folder(to.parent_path());
  const file_lock lock(to, "write the data set");
  remove_parts(to);  // left by a killed merge
  try {
    dataset_progress written;
    {
      merge_run run(options, all);
      for (const auto& prefix : prefixes)
        run.add(prefix);
      written = run.finish();
    }
    publish_dataset(to, all.found.type, written, all.made_by);
  } catch (...) {
    remove_parts(to);
    throw;
  }
  return all.found;
}

}  // namespace troupe::runtime
