// Operations with the memory that they work on: one owner per op family. Inputs come from fixed
// seeds. Results begin as a number that no operation computes, so a test sees unwritten elements.
// Copy an owner to give two backends the same work:
//
//   linear_memory<float> a{.R = 5, .N = 7, .K = 3}, b = a;
//   reference::run(a.forward());
//   cpu::run(b.forward(), context);
//   CHECK(relative_error(b.y, a.y) < 1e-6);
//
// Each call makes a new operation; it points into its owner, which must outlive it.

#pragma once

#include "tests/support/ops_products.hpp"
#include "tests/support/ops_rows.hpp"
