// Fuzzes x.idx and x.bin of an indexed data set.

#include "runtime/data/indexed_dataset_builder.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

using sequence = std::vector<std::int32_t>;

std::vector<sequence> all_of(const indexed_dataset& data) {
  std::vector<sequence> out;
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    data.get(i, 0, out.emplace_back(std::size_t(data.length(i))));
    fuzz::require(data.place(i).find("document") != std::string::npos, "each sequence has a place");
  }
  return out;
}

void write(const std::filesystem::path& prefix,
           std::int64_t vocabulary,
           const std::vector<sequence>& all,
           const std::vector<std::int64_t>& ends) {
  indexed_dataset_builder out(prefix, vocabulary);
  auto end = ends.begin();
  const auto finish_until = [&](std::int64_t written) {
    for (; end != ends.end() && *end == written; ++end)
      out.end_document();
  };
  finish_until(0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    out.add_sequence(all[i]);
    finish_until(std::int64_t(i) + 1);
  }
  out.finish();
}

std::string written(std::int64_t vocabulary,
                    const std::vector<sequence>& all,
                    const std::vector<std::int64_t>& ends) {
  const auto prefix = fuzz::folder() / "seed";
  write(prefix, vocabulary, all, ends);
  return fuzz::joined({fuzz::get(idx_path(prefix)), fuzz::get(bin_path(prefix))});
}

/// Writes the data set again and compares the bytes, if the program could have written the
/// original.
void write_again(const indexed_dataset& data, const std::vector<sequence>& all) {
  std::int32_t least = 0, most = 0;
  for (const auto& ids : all)
    for (const auto id : ids) {
      least = std::min(least, id);
      most = std::max(most, id);
    }
  const auto vocabulary = data.type() == token_type::u16 ? 60000 : 70000;
  if (data.type() != token_type_for(vocabulary) || least < 0 || most >= vocabulary)
    return;
  std::vector<std::int64_t> ends;
  for (std::int64_t d = 1; d <= data.documents(); ++d)
    ends.push_back(data.document_begin(d));
  const auto prefix = fuzz::folder() / "again";
  write(prefix, vocabulary, all, ends);
  fuzz::require(fuzz::get(idx_path(prefix)) == fuzz::get(idx_path(data.prefix()))
                    && fuzz::get(bin_path(prefix)) == fuzz::get(bin_path(data.prefix())),
                "an indexed data set survives a round trip");
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {written(100, {{1, 2, 3}, {4}, {5, 6}}, {1, 1, 3}),
          written(70000, {{65536, 2}, {69999}}, {2}),
          written(100, {}, {})};
}

std::vector<std::string> fuzz::dictionary() {
  return {
      "MMIDIDX", std::string("MMIDIDX\0\0", 9), std::string(section_mark), std::string(8, '\0')};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::sections(fuzz::text_of(data, size), 2);
  const auto prefix = fuzz::folder() / "x";
  fuzz::put(idx_path(prefix), parts[0]);
  fuzz::put(bin_path(prefix), parts[1]);
  fuzz::accepted([&] {
    const indexed_dataset found(prefix);
    write_again(found, all_of(found));
  });
  return 0;
}
