//! Other tools' formats, one file each: conversion into runs ([`import`]), and of runs
//! ([`export`]).
#![forbid(unsafe_code)]

pub mod export;
pub mod history_table;
pub mod import;
