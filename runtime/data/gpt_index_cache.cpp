#include "runtime/data/gpt_index_cache.hpp"

#include "runtime/data/index_cache.hpp"

#include <fmt/format.h>
#include <utility>

namespace troupe::runtime {

std::string describe(const token_source& source,
                     const gpt_index_request& request,
                     data_split part) {
  return fmt::format(
      "{{\n"
      "    \"class\": \"GPTDataset\",\n"
      "    \"format\": 1,\n"
      "    \"sequences\": [{}, {}],\n"
      "    \"sequence_lengths_xxh3\": \"{}\",\n"
      "    \"num_samples\": {},\n"
      "    \"index_split\": \"{}\",\n"
      "    \"random_seed\": {},\n"
      "    \"sequence_length\": {},\n"
      "    \"drop_last_partial_sequence\": {}\n"
      "}}",
      request.range.begin,
      request.range.end,
      digest_of_lengths(source, request.range.begin, request.range.end),
      request.samples ? std::to_string(*request.samples) : "null",
      to_string(part),
      request.seed,
      request.sequence_length,
      request.drop_last_partial);
}

gpt_index load_or_build_gpt_index(const token_source& source,
                                  const gpt_index_request& request,
                                  const gpt_index_plan& plan,
                                  data_split part,
                                  const std::filesystem::path& folder,
                                  const cancel_token& stop) {
  auto arrays = load_or_build(
      {.folder = folder,
       .kind = "GPTDataset",
       .part = part,
       .description = describe(source, request, part),
       .files = {{"document_index.npy", plan.documents(request)},
                 {"sample_index.npy", plan.bounds(request)},
                 {"shuffle_index.npy", plan.order()}}},
      [&] {
        auto built = build_gpt_index(source, request, plan, stop);
        std::vector<index_array> out;
        out.push_back(std::move(built.documents));
        out.push_back(std::move(built.bounds));
        out.push_back(std::move(built.order));
        return out;
      },
      stop);
  return {std::move(arrays[0]), std::move(arrays[1]), std::move(arrays[2])};
}

}  // namespace troupe::runtime
