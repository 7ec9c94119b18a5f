#include "runtime/family/masked_samples.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/tokenizer/description.hpp"

namespace troupe::runtime {

std::unique_ptr<const tokenizer> masking_tokenizer(const std::string& description) {
  if (description.empty())
    throw input_error(
        "samples of masked words need the tokenizer of the data, and the job names none: give it");
  return named_tokenizer(description);
}

masked_dataset_options masked_options(const samples_request& from,
                                      const masking_settings& masking,
                                      std::int64_t vocabulary,
                                      const tokenizer& by) {
  return {.samples = from.samples,
          .seed = std::uint32_t(from.seed),
          .masking = masking,
          .vocabulary = masking_vocabulary_of(by, vocabulary),
          .cache = from.data.cache,
          .stop = from.stop};
}

void require_sentences(const std::filesystem::path& prefix, const document_source& data) {
  if (data.documents() > 0 && data.sequences() <= data.documents()
      && prefix.filename().string().ends_with("_document"))
    throw input_error(
        "cannot mask words of the data set '{}': its {} were not split into sentences: each is at "
        "most one sequence; run `troupe preprocess` again, with texts split into sentences",
        prefix.string(),
        counted(data.documents(), "document"));
}

std::vector<std::string> validate_masking_tokens(
    const data_settings& data,
    const std::string& tokenizer_description,
    const std::function<void(const tokenizer& by)>& find) {
  std::vector<std::string> wrong;
  if (!data.mock)
    collect(wrong, [&] { find(*masking_tokenizer(tokenizer_description)); });
  return wrong;
}

}  // namespace troupe::runtime
