// The file of product choices: which algorithm of cuBLASLt computes which matrix product, as it was
// measured once. Byte by byte: docs/formats/products.md.

#pragma once

#include "kernels/backend/product_choice.hpp"

#include <filesystem>
#include <vector>

namespace troupe::runtime {

using kernels::product_choice;

/// ${XDG_CACHE_HOME:-~/.cache}/troupe/products.json; empty where there is no home.
std::filesystem::path default_product_choices();

/// Choices by name. None where there is no file. Throws input_error when it is no such file, in any
/// way: it names the file, says where it is wrong, and that it may be removed.
std::vector<product_choice> load_product_choices(const std::filesystem::path& path);

/// Whether they are of a build that multiplied by GELU's slope in a kernel, where now the product
/// does: trained with a GELU that the library has, and nothing is said of its gradient.
bool lack_gelu_gradient(const std::vector<product_choice>& choices);

/// Whose choice stays where the file has another for a product.
enum class standing : std::uint8_t {
  there,  ///< the file's: a choice is made once
  used,   ///< the new one: the file says what its run was computed with
};

/// Adds those that the file does not have and replaces it in one step, with its folder where that
/// is missing. Nothing is written when there is nothing to add. Of two processes that add at the
/// same moment one may lose its additions, never the file: what is lost is measured again. Throws
/// input_error as above, and io_error.
void add_product_choices(const std::filesystem::path& path,
                         const std::vector<product_choice>& more,
                         standing which = standing::there);

}  // namespace troupe::runtime
