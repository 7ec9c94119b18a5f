// The description of a run's tokenizer: locates its files and detects changes.

#pragma once

#include "runtime/tokenizer/tokenizer.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Returns JSON with type, vocabulary_size, fingerprint and the absolute paths of the type's files
/// (vocab_file and merge_file, or tokenizer_file). A TikTokenizer adds its pattern and the number
/// of its special_tokens.
std::string describe(const tokenizer_choice& choice, const tokenizer& made);

/// A file of a tokenizer and the name of its copy.
struct tokenizer_file {
  std::filesystem::path path;
  std::string name;
  bool decides = true;  ///< true: affects ids; false: may change, except its end-of-document token
};

/// Lists the files of the choice and the files beside them that decide the end-of-document token
/// and the chat format. For a tokenizer.json, also lists the same tokenizer in other forms.
std::vector<tokenizer_file> tokenizer_files(const tokenizer_choice& choice);

/// The folder that keep_tokenizer writes to.
std::filesystem::path kept_tokenizer_folder(const std::filesystem::path& run);

/// Copies the tokenizer's files and chat templates to `folder`/tokenizer, so that a checkpoint is
/// self-contained. Existing copies that do not affect ids stay, unless a tokenizer_config.json or
/// special_tokens_map.json there names another end-of-document token.
///
/// If a copy differs, `is_known` tells whether checkpoints there were saved with this tokenizer. If
/// so, the copy is damaged: it is rewritten with a warning. Throws input_error if a file cannot be
/// read or another tokenizer is kept there. Throws io_error.
void keep_tokenizer(const std::string& description,
                    const std::filesystem::path& folder,
                    const std::function<bool()>& is_known = {});

/// True if both descriptions have the same type and fingerprint; file paths may differ.
bool describe_the_same(const std::string& a, const std::string& b);

/// Returns the described choice with the files in `folder`/tokenizer, or at their original paths if
/// a copy is missing. Throws input_error if neither path is known.
tokenizer_choice described_choice(const std::string& description,
                                  const std::filesystem::path& folder);

/// Loads the described tokenizer from these files. Throws input_error if its files are missing or
/// have another fingerprint.
std::unique_ptr<const tokenizer> described_tokenizer(const std::string& description,
                                                     const std::filesystem::path& folder);

/// Loads the described tokenizer from the paths in the description.
std::unique_ptr<const tokenizer> named_tokenizer(const std::string& description);

/// Throws input_error unless the fingerprints are equal.
void require_described(const tokenizer& x, const std::string& description);

}  // namespace troupe::runtime
