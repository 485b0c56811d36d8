//! Other tools' formats, one file each: conversion of their output into runs ([`import`]), and of
//! runs into their formats ([`export`]).
#![forbid(unsafe_code)]

pub mod export;
pub mod history_table;
pub mod import;
