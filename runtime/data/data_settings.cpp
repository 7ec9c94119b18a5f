#include "runtime/data/data_settings.hpp"

namespace troupe::runtime {

bool by_part(const data_settings& data) {
  return !data.train_path.empty() || !data.valid_path.empty() || !data.test_path.empty();
}

const data_blend& blend_for(const data_settings& data, data_split part) {
  if (!by_part(data))
    return data.path;
  return part == data_split::train   ? data.train_path
         : part == data_split::valid ? data.valid_path
                                     : data.test_path;
}

split_matrix split_for(const data_settings& data, data_split part) {
  if (!by_part(data))
    return split_matrix(data.split);
  return split_matrix(part == data_split::train   ? "1,0,0"
                      : part == data_split::valid ? "0,1,0"
                                                  : "0,0,1");
}

std::vector<std::filesystem::path> prefixes_of(const data_settings& data) {
  std::vector<std::filesystem::path> out;
  for (const auto* blend : {&data.path, &data.train_path, &data.valid_path, &data.test_path})
    out.insert(out.end(), blend->prefixes.begin(), blend->prefixes.end());
  return out;
}

object_access objects_of(const data_settings& data) {
  return {.store = data.objects, .cache = data.object_cache};
}

}  // namespace troupe::runtime
